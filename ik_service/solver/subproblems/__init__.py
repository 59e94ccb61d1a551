"""Solves with what helps some of their problems: starts with loops opened, combinations of islands, targets alone."""
