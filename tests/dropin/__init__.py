"""scikit-learn's own mixture tests, run on jensen's GaussianMixture."""
