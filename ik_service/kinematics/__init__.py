"""Kinematics: poses, tangents and masses in float64 on the host (host_*), and batched on Warp for the solver.

On Warp, every function launches over all instances of the arrays it is given and runs on their device. The solver calls
forward kinematics, the motion subspace and integration once or twice an iteration. Forward kinematics and integration
keep their backward pass, so that a tape can differentiate through them; conventions (frames, tangents, order of twists)
are those of docs/conventions.md.
"""
