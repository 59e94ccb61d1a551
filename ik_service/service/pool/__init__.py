"""The thread that owns the solvers of a device, and compiling in a process of its own for requests that wait.

No web framework is imported here.
"""
