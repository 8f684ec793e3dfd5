"""Inside one cell: the restricted target, and the kernels that move in it."""
