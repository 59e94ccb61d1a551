"""Rows of all objectives: their blocks, weights and support."""
