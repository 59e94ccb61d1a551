"""The rules of the solve: status codes, tolerances, seeds, and how DOFs move coordinates."""
