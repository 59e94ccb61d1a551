"""The rules of the solve: status codes, termination, damping, ranking, bounds, seeds, coupling and tolerances."""
