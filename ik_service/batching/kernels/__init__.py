"""Compiling kernels in a process of its own, and which requests wait for them."""
