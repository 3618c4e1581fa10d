"""Rows and columns of any kind of table."""
