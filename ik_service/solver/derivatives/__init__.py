"""Derivatives of answers: rows in float64 on the host, conditions of a minimum, and how answers follow targets."""
