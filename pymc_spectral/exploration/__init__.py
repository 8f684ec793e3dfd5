"""Points that cover the modes: parallel tempering, or what the user has."""
