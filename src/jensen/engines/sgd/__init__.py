"""Training by stochastic gradients."""
