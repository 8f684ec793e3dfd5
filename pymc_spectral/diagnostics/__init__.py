"""When to believe the answer: findings, and the figures they are read from."""
