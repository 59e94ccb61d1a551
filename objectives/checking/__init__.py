"""Checks of an objective: its Jacobian against finite differences, with hints."""
