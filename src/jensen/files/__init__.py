"""Model files, tables, images and data sets on disk."""
