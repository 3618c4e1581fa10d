"""Many models, one table."""
