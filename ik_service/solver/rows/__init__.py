"""Rows of all objectives: their blocks, weights, priorities and support."""
