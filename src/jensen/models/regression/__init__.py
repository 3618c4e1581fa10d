"""Ridge regression."""
