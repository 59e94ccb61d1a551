"""Index arrays of a robot on the host, and look-ups."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from objectives.errors import InputError, UnknownNameError, near_names
from objectives.model import BoolArray, FloatArray, IKModel

IDENTITY = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


@dataclass(frozen=True)
class BodyFrame:
    """A frame fixed to a body, such as a frame at the centre of mass; body -1 for the world.

    `T_body_frame` is a position [m] and a unit quaternion xyzw.
    """

    body: int
    T_body_frame: tuple[float, float, float, float, float, float, float]


class RobotIndices:
    """Index arrays of a model on the host; made when an objective is bound, never in a solve."""

    def __init__(self, model: IKModel) -> None:
        self.model = model
        self.ancestor: npt.NDArray[np.int32] = model.joint_ancestor.numpy()
        self.child: npt.NDArray[np.int32] = model.joint_child.numpy()
        self.q_start: npt.NDArray[np.int32] = model.joint_q_start.numpy()
        self.qd_start: npt.NDArray[np.int32] = model.joint_qd_start.numpy()
        self.dof_dim: npt.NDArray[np.int32] = model.joint_dof_dim.numpy()
        self.dof_coordinate: npt.NDArray[np.int32] = model.dof_coordinate.numpy()

    def frame(self, link: str | int | BodyFrame) -> tuple[int, FloatArray]:
        """Give the body of a link and T_body_link, shape [7]; an int is a body index, with the body's own frame.

        Raises:
            UnknownNameError: No link has this name.
            InputError: No body has this index.
        """
        if isinstance(link, str):
            return self.model.link_frame(link)
        if isinstance(link, BodyFrame):
            return link.body, np.array(link.T_body_frame)
        if not 0 <= link < self.model.body_count:
            raise InputError(f"Body index {link} is not in the robot; allowed: 0 to {self.model.body_count - 1}.")
        return link, IDENTITY

    def moves(self, body: int) -> BoolArray:
        """Give a mask of the DOFs that move a body, shape [joint_dof_count]; none move the world, body -1."""
        moving = np.zeros(self.model.joint_dof_count, dtype=bool)
        for joint in self.way_to(body):
            moving[self.dofs(joint)] = True
        return moving

    def way_to(self, body: int) -> list[int]:
        """Give the joints from the base to a body; none for the world, body -1."""
        joint = int(np.flatnonzero(self.child == body)[0]) if body >= 0 else -1
        way: list[int] = []
        while joint >= 0:
            way.append(joint)
            joint = int(self.ancestor[joint])
        return way[::-1]

    def linear_dofs(self) -> BoolArray:
        """Give a mask of the translational DOFs, shape [joint_dof_count]."""
        linear = np.zeros(self.model.joint_dof_count, dtype=bool)
        for start, (count, _) in zip(self.qd_start[:-1], self.dof_dim, strict=True):
            linear[start : start + count] = True
        return linear

    def dofs(self, joint: int) -> range:
        """Give the DOFs of a joint."""
        return range(int(self.qd_start[joint]), int(self.qd_start[joint + 1]))

    def scalar_dofs(self, joints: Iterable[int]) -> list[int]:
        """Give the DOFs with a scalar coordinate, of some joints."""
        return [dof for joint in joints for dof in self.dofs(joint) if self.dof_coordinate[dof] >= 0]

    def has_quaternion(self, joint: int) -> bool:
        """Return True for a ball or floating joint; its last four coordinates are a quaternion."""
        return bool(self.q_start[joint + 1] - self.q_start[joint] > len(self.dofs(joint)))

    def first_quaternion_coordinate(self, joint: int) -> int:
        """Give the first coordinate of a joint's quaternion."""
        return int(self.q_start[joint + 1]) - 4

    def first_angular_dof(self, joint: int) -> int:
        """Give the first angular DOF of a joint."""
        return int(self.qd_start[joint] + self.dof_dim[joint, 0])

    def select_joints(self, names: Sequence[str] | None, objective: str) -> list[int]:
        """Give the indices of named joints in the order of the robot; None selects all.

        Raises:
            UnknownNameError: The robot has no joint of a name.
            InputError: The names are a string instead of a sequence.
        """
        known = self.model.joint_names
        if names is None:
            return list(range(len(known)))
        if isinstance(names, str):
            raise InputError(f"{objective}: joints is the string '{names}'; allowed: a sequence of joint names.")
        for name in names:
            if name not in known:
                close = near_names(name, known)
                hint = f"Did you mean '{close[0]}'? " if close else ""
                raise UnknownNameError(
                    f"{objective}: joint '{name}' is not in the robot. {hint}Joints: {', '.join(known)}."
                )
        return [joint for joint, name in enumerate(known) if name in names]
