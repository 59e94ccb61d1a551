"""Texts of the exported files."""
