"""Queue of requests: bounded, fair to owners, grouped by requests for the same batch.

This package takes no lock and does no input or output: the pool holds the lock around every call.
"""
