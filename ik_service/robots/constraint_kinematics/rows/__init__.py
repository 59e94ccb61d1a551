"""Rows of constraints: which frames they are about, both packings, which of them depend on each other."""
