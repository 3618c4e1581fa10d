"""The explainers: one module each, whose EXPLAINER says what the screen shows and computes its values."""
