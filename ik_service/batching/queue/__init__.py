"""The queue of requests: bounded, fair to owners, grouped by what can be solved together."""
