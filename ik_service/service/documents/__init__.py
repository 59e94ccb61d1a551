"""Conversion of documents to checked arrays for the solver, and of results to documents."""
