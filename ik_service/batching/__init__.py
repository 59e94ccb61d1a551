"""Requests of many callers on one device: their queue, the thread that owns the solvers, and the kernels it needs.

No web framework is imported here; the HTTP surface and the command line use it.
"""
