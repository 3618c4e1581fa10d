"""Latent curves and surfaces."""
