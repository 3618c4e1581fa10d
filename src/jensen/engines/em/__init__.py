"""Expectation-maximisation over additive statistics."""
