"""Solver thread of a device, and a separate process for the compilation of kernels.

No web framework is imported here.
"""
