"""Closing joints: the joint of each loop as a chain of elementary joints on the reference frame.

A robot with these chains has coordinates for the tree and for the closing joints; a loop is closed if the end of the
chain meets the frame. Only this module distinguishes the kinds of closing joints.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ik_service.constraints.residual_rows import Groups, loop_frames
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot, Robot
from ik_service.mechanism.loops import IDENTITY, LoopConstraint
from ik_service.mechanism.transforms import Float64Array, identity_transform
from objectives.expression import Scalar, atan2, cos, sin, sqrt
from objectives.expression.element_table import Element
from objectives.expression.frame_algebra import Frame, conjugate, quaternion_product
from objectives.expression.rows import RowGroup
from objectives.tasks.closing_joint import CLOSING_COORDINATES, relative_group

X, Y, Z = np.eye(3)
FREE_AXES: Mapping[JointType, Float64Array] = {JointType.PLANAR: np.eye(3), JointType.BALL: np.eye(3)}


class _Part(NamedTuple):
    """An elementary joint of a closing joint."""

    name: str  # name within the closing joint; empty for the only part
    joint_type: JointType
    axis: Float64Array = Z  # axis of a scalar joint
    is_screw: bool = False  # whether this part follows the part before: pitch times angle
    is_distant: bool = False  # whether this part is at the loop's distance along x


_BALL = _Part("turn", JointType.BALL)
CLOSING_PARTS: Mapping[str, tuple[_Part, ...]] = {
    "weld": (),
    "revolute": (_Part("", JointType.CONTINUOUS),),
    "prismatic": (_Part("", JointType.PRISMATIC),),
    "helical": (_Part("", JointType.CONTINUOUS), _Part("screw", JointType.PRISMATIC, is_screw=True)),
    "cylindrical": (_Part("z", JointType.PRISMATIC), _Part("angle", JointType.CONTINUOUS)),
    "universal": (_Part("angle_z", JointType.CONTINUOUS), _Part("angle_x", JointType.CONTINUOUS, X)),
    "spherical": (_BALL._replace(name=""),),
    "planar": (_Part("", JointType.PLANAR),),
    "point_on_line": (_Part("z", JointType.PRISMATIC), _BALL),
    "point_in_plane": (_Part("x", JointType.PRISMATIC, X), _Part("y", JointType.PRISMATIC, Y), _BALL),
    "distance": (
        _Part("azimuth", JointType.CONTINUOUS),
        _Part("elevation", JointType.CONTINUOUS, -Y),
        _BALL._replace(is_distant=True),
    ),
}
"""Elementary joints of each kind of closing joint, starting at the reference frame."""


def with_closing_joints(robot: Robot) -> Robot:
    """Append the closing joints of all loops to a robot; the new loops weld the frames to the ends of the chains.

    Coordinates and DOFs: first the tree, then the closing joints in the order of the loops.
    """
    chain = _Chain(robot)
    loops = []
    for loop, (_, reference) in zip(robot.loops, loop_frames(robot), strict=True):
        body, T = reference.body, np.array(reference.T_body_frame)
        parts = CLOSING_PARTS[loop.joint]
        for part in parts:
            if part.is_distant:
                T = np.array([loop.size, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
            body, T = chain.add(loop, part, body, T), identity_transform()
        end = (chain.link_names[-1], IDENTITY) if parts else (loop.reference_link, loop.reference_offset)
        slack = _weld_slack(dict(loop.slack or ()))
        loops.append(LoopConstraint(loop.name, "weld", loop.link, end[0], loop.offset, end[1], slack=slack))
    return chain.appended(robot, loops)


def _weld_slack(own: dict[str, float]) -> tuple[tuple[str, float], ...]:
    """Turn the slack of a joint's rows into the slack of the weld at the end of the closing joint."""
    across, tilt = (max(own.get(name, 0.0) for name in names) for names in (("px", "py"), ("ex", "ey", "zx", "zy")))
    found = {"px": across, "py": across, "pz": own.get("pz"), "ex": tilt, "ey": tilt, "ez": own.get("ez")}
    return tuple((name, one) for name, one in found.items() if one)


class _Chain:
    """Bodies to append to a robot."""

    def __init__(self, robot: KinematicRobot) -> None:
        self._bodies, self._first_dof = robot.body_count, robot.joint_dof_count
        self._taken = {*robot.joint_names}, {*robot.link_names}
        self._names: list[str] = []
        self.link_names: list[str] = []
        self._parents: list[int] = []
        self._frames: list[Float64Array] = []
        self._parts: list[_Part] = []
        self._multipliers: list[float] = []

    def add(self, loop: LoopConstraint, part: _Part, body: int, T_body_joint: Float64Array) -> int:
        """Put one joint on a body; return the index of the new body."""
        name = f"{loop.name}/{part.name}" if part.name else loop.name
        for names, taken in zip((self._names, self.link_names), self._taken, strict=True):
            names.append(_free_name(name, taken))
        self._parents.append(body)
        self._frames.append(T_body_joint)
        self._parts.append(part)
        self._multipliers.append(loop.size if part.is_screw else 1.0)
        return self._bodies + len(self._names) - 1

    def appended(self, robot: Robot, loops: Sequence[LoopConstraint]) -> Robot:
        """Append the bodies, one link on each, to the robot, and replace the loops."""
        count = len(self._names)
        axes = [FREE_AXES.get(part.joint_type, part.axis[np.newaxis]) for part in self._parts]
        dof_counts = [len(one) for one in axes]
        first = self._first_dof + np.cumsum([0, *dof_counts], dtype=np.int32)
        leaders = [
            own - part.is_screw
            for start, part, size in zip(first, self._parts, dof_counts, strict=False)
            for own in range(start, start + size)
        ]
        multipliers = np.repeat(self._multipliers, dof_counts)
        unlimited = np.full(len(leaders), np.inf)
        bodies = np.arange(self._bodies, self._bodies + count)

        def joined(own: np.ndarray, more: object) -> np.ndarray:
            return np.concatenate([own, np.asarray(more, own.dtype).reshape(-1, *own.shape[1:])])

        return dataclasses.replace(
            robot,
            joint_names=(*robot.joint_names, *self._names),
            link_names=(*robot.link_names, *self.link_names),
            link_parent=joined(robot.link_parent, np.zeros(count)),
            link_body=joined(robot.link_body, bodies),
            link_X_body=joined(robot.link_X_body, np.tile(identity_transform(), (count, 1))),
            link_mass=joined(robot.link_mass, np.zeros(count)),
            link_com=joined(robot.link_com, np.zeros((count, 3))),
            joint_type=joined(robot.joint_type, [part.joint_type for part in self._parts]),
            joint_parent=joined(robot.joint_parent, self._parents),
            joint_X_p=joined(robot.joint_X_p, self._frames),
            joint_axis=joined(robot.joint_axis, np.concatenate([np.zeros((0, 3)), *axes])),
            joint_limit_lower=joined(robot.joint_limit_lower, -unlimited),
            joint_limit_upper=joined(robot.joint_limit_upper, unlimited),
            joint_velocity_limit=joined(robot.joint_velocity_limit, unlimited),
            joint_effort_limit=joined(robot.joint_effort_limit, unlimited),
            joint_acceleration_limit=joined(robot.joint_acceleration_limit, unlimited),
            dof_leader=joined(robot.dof_leader, leaders),
            dof_multiplier=joined(robot.dof_multiplier, multipliers),
            dof_offset=joined(robot.dof_offset, np.zeros(len(leaders))),
            loops=tuple(loops),
        )


def _free_name(name: str, taken: set[str]) -> str:
    """Reserve a name; add primes to a name that is taken."""
    while name in taken:
        name += "'"
    taken.add(name)
    return name


def coordinate_groups(robot: KinematicRobot) -> Groups:
    """State the coordinates of all closing joints, nearest to loop closure; for a screw also the translation."""
    found: list[tuple[RowGroup, list[Element]]] = []
    for loop, frames in zip(robot.loops, loop_frames(robot), strict=True):
        if CLOSING_PARTS[loop.joint]:
            group = _OWN_GROUPS.get(loop.joint) or CLOSING_COORDINATES[loop.joint][0]
            found.append((group, [Element(frames, constants=(loop.size,) * len(group.constants))]))
    return found


def _screw(frame: Frame, pitch: Scalar) -> Sequence[Scalar]:
    angle = frame.position[2] / pitch
    return [angle, pitch * angle]


def _distance(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    x, y, z = frame.position
    azimuth, elevation = atan2(y, x), atan2(z, sqrt(x * x + y * y))
    about_z = (0.0, 0.0, sin(0.5 * azimuth), cos(0.5 * azimuth))
    rod = quaternion_product(about_z, (0.0, -sin(0.5 * elevation), 0.0, cos(0.5 * elevation)))
    return [azimuth, elevation, *quaternion_product(conjugate(rod), frame.orientation_xyzw)]


_OWN_GROUPS: Mapping[str, RowGroup] = {
    joint: relative_group(f"own_{joint}", count, rows, has_size=joint == "helical")
    for joint, count, rows in (
        ("helical", 2, _screw),
        ("point_on_line", 5, lambda frame, _size: [frame.position[2], *frame.orientation_xyzw]),
        ("point_in_plane", 6, lambda frame, _size: [*frame.position[:2], *frame.orientation_xyzw]),
        ("distance", 6, _distance),
    )
}
"""Coordinates used in this module only: solvers do not report them."""
