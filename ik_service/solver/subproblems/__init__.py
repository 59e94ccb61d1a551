"""Smaller problems within a solve: loops opened to find starts, combinations of islands that touch, targets alone."""
