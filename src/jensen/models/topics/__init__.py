"""Topics: latent Dirichlet allocation."""
