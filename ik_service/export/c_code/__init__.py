"""Pieces of C: structs, values and object files."""
