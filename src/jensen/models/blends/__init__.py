"""Blends: a mixture whose components are models of any kind."""
