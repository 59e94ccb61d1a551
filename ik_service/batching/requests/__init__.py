"""Requests to a solver and their answers, independent of any wire format."""
