"""Families of columns that are independent given the component: one file per distribution."""
