"""Scalar expressions: plain arithmetic that is folded, derived and written as code."""
