"""Autoencoders, plain and variational."""
