"""Model files that later versions must load."""
