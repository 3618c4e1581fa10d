"""Diffusion in the latent space of a variational autoencoder."""
