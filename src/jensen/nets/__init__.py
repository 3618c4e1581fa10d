"""Networks as recipes, which store the arguments to build a module with, and likelihoods."""
