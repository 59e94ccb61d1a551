"""Launches: recorded and replayed, and the kernels that they need from the cache."""
