"""Checks of an objective: Jacobian against finite differences, with hints."""
