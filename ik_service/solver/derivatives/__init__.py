"""Derivatives of answers: rows in float64 on the host, conditions of a minimum, and d answers / d targets."""
