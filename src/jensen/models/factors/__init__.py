"""Probabilistic PCA, factor analysis, and mixtures of both."""
