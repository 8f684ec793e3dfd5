"""The mass of each cell, by bridge sampling, with its error."""
