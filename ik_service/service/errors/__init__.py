"""Errors of the HTTP surface: the exceptions, and the table that says how each is answered."""
