"""The parts of `jensen.cluster`: search, merging, stability, description, classes."""
