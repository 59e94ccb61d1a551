"""Compiling kernels in a process of its own, and knowing which requests have theirs."""
