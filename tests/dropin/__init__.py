"""scikit-learn's own tests of mixtures and k-means, run on jensen's classes."""
