"""Default networks, as recipes: small values that say how to build a module."""
