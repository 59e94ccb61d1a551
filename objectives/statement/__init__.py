"""Rows of an objective, stated once as expressions, and the kernels made of them."""
