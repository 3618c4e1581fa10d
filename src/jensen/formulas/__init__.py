"""Pure tensor functions, one file per distribution or process."""
