"""Kinematics: poses, tangents and masses in float64 on the host (host_*), and batched on Warp for the solver.

On Warp, a function launches over all instances of its arrays, on the device of the arrays. The solver calls forward
kinematics, motion subspace and integration once or twice per iteration. Forward kinematics and integration keep the
backward pass, for tapes. docs/conventions.md has the conventions: frames, tangents, order of twists.
"""
