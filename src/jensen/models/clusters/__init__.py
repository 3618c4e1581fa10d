"""k-means, k-medoids and stores."""
