"""Targets with exact answers, for tests, examples and benchmarks."""
