"""`jensen studio`: a local web page with explainers, a fitted model to ask, and fits to watch."""
