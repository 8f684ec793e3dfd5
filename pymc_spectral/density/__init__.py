"""The model's log density on many points at once."""
