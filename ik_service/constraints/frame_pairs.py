"""Pairs of frames of constraints on a robot, in the order of the constraints."""

from collections.abc import Sequence

import numpy as np

from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.loops import LoopConstraint
from ik_service.mechanism.transforms import Float64Array, identity_transform, transform_multiply
from ik_service.mechanism.trees import moving_dofs

SIDES = 2  # the frame, then the reference frame


class FramePairs:
    """Frames of constraints on a robot, in the order of the constraints: the frame, then the reference frame."""

    def __init__(self, robot: KinematicRobot, loops: Sequence[LoopConstraint]) -> None:
        places = [
            [_place(robot, one.link, np.array(one.offset)) for one in loops],
            [_place(robot, one.reference_link, np.array(one.reference_offset)) for one in loops],
        ]
        bodies, shape = [[body for body, _ in side] for side in places], (SIDES, len(loops))
        self.body = np.array(bodies, dtype=np.intp).reshape(shape)  # body that carries each frame, -1 for static ones
        # frames in their bodies (in the world for body -1) [m, xyzw]
        self.T_body_frame = np.array([[T for _, T in side] for side in places]).reshape(*shape, 7)
        moved = np.array([[moving_dofs(robot, one) for one in side] for side in bodies], dtype=bool)
        self.moved = moved.reshape(*shape, robot.joint_dof_count)  # whether a DOF moves the frame

    @property
    def moves_apart(self) -> Float64Array:
        """1 for a DOF that moves the frame alone, -1 for the reference frame alone, shape [loops, joint_dof_count]."""
        return np.asarray(self.moved[0].astype(float) - self.moved[1])

    def poses(self, T_world_body: Float64Array) -> Float64Array:
        """Give the frames in the world, shape [2, n, loops, 7], from poses of all bodies, shape [n, body_count, 7]."""
        world = np.broadcast_to(identity_transform(), (len(T_world_body), 1, 7))
        with_world = np.concatenate([T_world_body, world], axis=1)
        shape = (len(T_world_body), *self.T_body_frame.shape[1:])
        return np.stack(
            [
                transform_multiply(with_world[:, self.body[side]], np.broadcast_to(self.T_body_frame[side], shape))
                for side in range(SIDES)
            ]
        )


def _place(robot: KinematicRobot, link: str | None, offset: Float64Array) -> tuple[int, Float64Array]:
    if link is None:
        return -1, offset
    body, T_body_link = robot.link_frame(link)
    return body, transform_multiply(T_body_link, offset)
