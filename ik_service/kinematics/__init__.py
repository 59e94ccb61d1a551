"""Batched kinematics on Warp: forward kinematics, the motion subspace and integration on the manifold.

Every function launches over all instances of the arrays it is given and runs on their device. The solver calls them
once or twice an iteration. Forward kinematics and integration keep their backward pass, so that a tape can
differentiate through them; conventions (frames, tangents, order of twists) are those of docs/conventions.md.
"""

from ik_service.kinematics.forward_kinematics import forward_kinematics
from ik_service.kinematics.integrate import integrate, left_tangent, quat_exp, turned
from ik_service.kinematics.motion_subspace import motion_subspace

__all__ = ["forward_kinematics", "integrate", "left_tangent", "motion_subspace", "quat_exp", "turned"]
