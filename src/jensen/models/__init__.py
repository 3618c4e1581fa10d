"""One file, one model."""
