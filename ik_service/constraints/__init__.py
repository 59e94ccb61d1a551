"""Closed chains on the host: loop closure errors, closing loops, motions with closed loops, and rows of constraints."""
