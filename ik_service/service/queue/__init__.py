"""The queue of requests: bounded, fair to owners, grouped by what can be solved together.

Nothing here holds a lock or does input or output: the pool holds the lock around every call.
"""
