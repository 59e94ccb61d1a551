"""Requests of many callers on one solver: the bodies of a request and an answer, and the thread that owns the solvers.

No web framework is imported here; the HTTP surface and the command line stand on top.
"""
