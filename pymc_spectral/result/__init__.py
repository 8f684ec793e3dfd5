"""What the user gets: equal-weight draws, and tables with honest errors."""
