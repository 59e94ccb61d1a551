"""Conversion of a finalized ``newton.Model`` into a description.

Arrays are read through NumPy; the package newton is not imported. Joints of several axes (D6) become one joint per
axis. Loop-closing joints and bodies without a joint are left out with a warning.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ik_service.errors import RobotFileError
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.transforms import (
    UNBOUNDED,
    UNBOUNDED_RATE,
    Float64Array,
    identity_transform,
    transform_inverse,
)
from ik_service.robots.readers.description import (
    JointDescription,
    LinkDescription,
    MimicDescription,
    ReadConstraints,
    RobotDescription,
)
from objectives.errors import InputError

WORLD = "world"
ARRAYS = (
    *("joint_type", "joint_parent", "joint_child", "joint_X_p", "joint_X_c", "joint_axis", "joint_dof_dim"),
    *("joint_qd_start", "joint_limit_lower", "joint_limit_upper", "joint_velocity_limit", "joint_effort_limit"),
    *("joint_mimic_joint", "joint_mimic_coeffs", "body_mass", "body_com", "body_q"),
)
PRISMATIC, REVOLUTE, BALL, FIXED, FREE, DISTANCE, D6 = 0, 1, 2, 3, 4, 5, 6  # of newton.JointType
WHOLE = {BALL: JointType.BALL, FIXED: JointType.FIXED, FREE: JointType.FLOATING}


def read_newton_model(model: Any) -> RobotDescription:
    """Read a ``newton.Model``, labels without their shared prefix; InputError or RobotFileError if not supported."""
    if int(model.world_count) > 1:
        raise InputError(f"The model has {model.world_count} worlds. Give the model of one: a robot is solved in one.")
    return _NewtonConversion(model).description()


class _NewtonConversion:
    def __init__(self, model: Any) -> None:
        self._of = {name: np.asarray(getattr(model, name).numpy()) for name in ARRAYS}
        labels = [*model.body_label, *model.joint_label]
        self._name, self._prefix = _shared_beginning(labels)
        self._bodies = _unique([label.removeprefix(self._prefix) for label in model.body_label], {WORLD})
        self._joint_names = _unique([label.removeprefix(self._prefix) for label in model.joint_label], set())
        self._between: list[str] = []  # links between the axes of a joint, and between a joint and its displaced body
        self._warnings: list[str] = []

    def description(self) -> RobotDescription:
        joints, moved = list[JointDescription](), set[int]()
        for joint, child in enumerate(self._of["joint_child"]):
            if int(child) in moved:
                self._warnings.append(
                    f"Joint '{self._joint_names[joint]}' closes a loop at body '{self._bodies[child]}': left out. "
                    f"See RobotModel.with_loops."
                )
                continue
            moved.add(int(child))
            joints += self._joints(joint)
        for body, name in enumerate(self._bodies):
            if body in moved:
                continue
            if body in self._of["joint_parent"]:
                place = _transform(self._of["body_q"][body])
                joints.append(JointDescription(f"{name}/place", JointType.FIXED, WORLD, name, X_parent=place))
                moved.add(body)
                self._warnings.append(f"Body '{name}' has no joint: it stands where the body_q of the model has it.")
            else:
                self._warnings.append(f"Body '{name}' has no joint: left out.")
        links = [LinkDescription(WORLD)]
        for body in sorted(moved):
            x, y, z = map(float, self._of["body_com"][body])
            links.append(LinkDescription(self._bodies[body], mass=float(self._of["body_mass"][body]), com=(x, y, z)))
        links += map(LinkDescription, self._between)
        constraints = ReadConstraints(warnings=tuple(self._warnings))
        return RobotDescription(self._name, tuple(links), tuple(joints), constraints)

    def _joints(self, joint: int) -> Iterator[JointDescription]:
        """Give the joints for one Newton joint: one per axis, and a weld if the joint is displaced from its body."""
        parent, child = int(self._of["joint_parent"][joint]), self._bodies[self._of["joint_child"][joint]]
        own = list(self._axes(joint))
        X_child = transform_inverse(_transform(self._of["joint_X_c"][joint]))
        ends_here = np.array_equal(X_child, identity_transform())
        link, X_parent = (WORLD if parent < 0 else self._bodies[parent]), _transform(self._of["joint_X_p"][joint])
        for k, one in enumerate(own):
            below = child if ends_here and k == len(own) - 1 else self._new_link(f"{child}/{one.name}")
            yield replace(one, parent=link, child=below, X_parent=X_parent)
            link, X_parent = below, identity_transform()
        if not ends_here:
            yield JointDescription(f"{child}/weld", JointType.FIXED, link, child, X_parent=X_child)

    def _axes(self, joint: int) -> Iterator[JointDescription]:
        """Give the joint, or one joint per axis, linear axes first, without links yet."""
        kind, name = int(self._of["joint_type"][joint]), self._joint_names[joint]
        first = int(self._of["joint_qd_start"][joint])
        if kind == DISTANCE and max(self._of[f"joint_limit_{side}"][first] for side in ("lower", "upper")) < 0.0:
            kind = FREE  # neither a least nor a largest distance
        if kind not in (*WHOLE, PRISMATIC, REVOLUTE, D6):
            raise RobotFileError(f"joints of Newton's type {kind} cannot be represented.", element=f"joint '{name}'")
        axis_count, mimic = sum(map(int, self._of["joint_dof_dim"][joint])), self._mimic(joint)
        if mimic is not None and (kind in (BALL, FREE) or (kind != FIXED and axis_count > 1)):
            raise RobotFileError("a joint of several DOFs cannot follow another.", element=f"joint '{name}'")
        if kind in WHOLE or axis_count == 0:
            yield JointDescription(name, WHOLE.get(kind, JointType.FIXED), "", "")
            return
        for k in range(axis_count):
            own = name if axis_count == 1 else f"{name}/{k}"
            is_linear = k < int(self._of["joint_dof_dim"][joint][0])
            yield replace(self._axis(own, first + k, is_linear=is_linear), mimic=mimic)

    def _axis(self, name: str, dof: int, *, is_linear: bool) -> JointDescription:
        x, y, z = (float(number) for number in self._of["joint_axis"][dof])
        lower, upper = (float(self._of[f"joint_limit_{side}"][dof]) for side in ("lower", "upper"))
        velocity, effort = (float(self._of[f"joint_{what}_limit"][dof]) for what in ("velocity", "effort"))
        lower, upper = (-math.inf if lower <= -UNBOUNDED else lower), (math.inf if upper >= UNBOUNDED else upper)
        turns = JointType.CONTINUOUS if lower == -math.inf and upper == math.inf else JointType.REVOLUTE
        return JointDescription(
            name=name,
            joint_type=JointType.PRISMATIC if is_linear else turns,
            parent="",
            child="",
            axis=(x, y, z),
            lower=lower,
            upper=upper,
            velocity=velocity if velocity < UNBOUNDED_RATE else math.inf,
            effort=effort if effort < UNBOUNDED_RATE else math.inf,
        )

    def _mimic(self, joint: int) -> MimicDescription | None:
        leader = int(self._of["joint_mimic_joint"][joint])
        if leader < 0:
            return None
        offset, multiplier = map(float, self._of["joint_mimic_coeffs"][joint])
        return MimicDescription(self._joint_names[leader], multiplier, offset)

    def _new_link(self, name: str) -> str:
        self._between.append(name)
        return name


def _transform(numbers: Float64Array) -> Float64Array:
    """Give a transform in float64 with a unit quaternion."""
    found = np.array(numbers, np.float64)
    found[3:] /= np.linalg.norm(found[3:])
    return found


def _shared_beginning(labels: list[str]) -> tuple[str, str]:
    """Give the name of the robot and the prefix of all labels, taken from the text before their first slash."""
    names = {label.partition("/")[0] if "/" in label else "" for label in labels}
    name = names.pop() if len(names) == 1 else ""
    return (name, f"{name}/") if name else ("newton", "")


def _unique(names: list[str], taken: set[str]) -> list[str]:
    """Make names unique: a repeated name gets a number."""
    found = []
    for name in names:
        own, number = name or "unnamed", 1
        while own in taken:
            number += 1
            own = f"{name}_{number}"
        taken.add(own)
        found.append(own)
    return found
