"""Engines: they know verbs, not models."""
