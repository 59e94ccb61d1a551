"""Smaller problems within a solve: loops opened to find starts, and combinations of islands that touch."""
