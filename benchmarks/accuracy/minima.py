"""Minima of pose targets in float64, as a reference of derivatives: it shares no code with solvers and linearisations.

Targets that are met are conditions, and a posture is nearest beside them; those out of reach have the least cost. Both
are equations in the configuration, solved by Newton's method, whose derivatives are differences of fourth order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism import transforms
from ik_service.robots import RobotModel

Array = NDArray[np.float64]
STEPS, SHARES = np.array([1.0, -1.0, 2.0, -2.0]), np.array([8.0, -8.0, -1.0, 1.0]) / 12.0
APART = 1e-4  # by how much configurations and targets are moved for differences [m or rad]
NEWTON_STEPS, SETTLED, LEAST_SHARE = 12, 1e-11, 1e-9
EVALUATED_MAX = 100_000  # configurations at once
ROTATION_LENGTH = 0.4  # metres of a target that cost as much as a radian


def differences(
    values: Callable[[int, Any], Array], axes: Sequence[int], apart: float | NDArray[np.float64] = APART
) -> Array:
    """Give derivatives of values by axes, shape [..., axes], by differences of fourth order.

    Values [...] are given by the axis and by how far along it; steps have one unit for all, or one for each line.
    """
    each = [sum(w * values(axis, s * apart) for s, w in zip(STEPS, SHARES, strict=True)) for axis in axes]
    found = np.stack(each, axis=-1)
    return np.asarray(found / np.reshape(apart, (*np.shape(apart), *[1] * (found.ndim - np.ndim(apart)))))


@dataclass(frozen=True, eq=False)
class Minima:
    """What a robot without followers is to reach, with targets in the world."""

    robot: RobotModel
    links: Sequence[str]  # links with targets
    reference: Array | None = None  # where a posture pulls to, shape [joint_coord_count]; None without posture
    is_met: bool = True  # whether targets are conditions, or cost
    tools: Array | None = None  # tool frames T_link_tool, shape [targets, 7]; None for the links themselves
    # where a one-sided cost of `limit_weight` pulls scalar joints from below it, shape [joint_coord_count]
    lower: Array | None = None
    upper: Array | None = None  # alike, from above it
    limit_weight: float = 0.0  # its weight; 0 for none
    posture_weight: float = 1.0  # that of the posture. Beside targets that are met only their ratio counts

    def at(self, positions: Array, orientations_xyzw: Array | None, start: Array, free: NDArray[np.bool_]) -> Array:
        """Give the minima near to starts, shape [n, joint_coord_count], NaN where there is none.

        Targets have the shapes [n, targets, 3] (in m) and [n, targets, 4], where None leaves orientations free; `free`
        are the DOFs that may move, shape [n, joint_dof_count].
        """
        joint_q = np.array(start, np.float64)
        for own in np.unique(free, axis=0):
            dofs = np.flatnonzero(own)
            evaluated = len(STEPS) * max(1, len(dofs))  # for a slope; twice over where errors are derived before
            most = max(1, EVALUATED_MAX // (evaluated if self.is_met else evaluated**2))
            alike = np.flatnonzero((free == own).all(axis=1))
            for part in np.split(alike, range(most, len(alike), most)):
                given = positions[part], None if orientations_xyzw is None else orientations_xyzw[part]
                joint_q[part] = self._newton(*given, joint_q[part], dofs)
        return joint_q

    def derivatives(
        self,
        positions: Array,
        orientations_xyzw: Array | None,
        joint_q: Array,
        free: NDArray[np.bool_] | None = None,
        apart: NDArray[np.float64] | None = None,
    ) -> Array:
        """Give how the coordinates of minima follow the targets, shape [n, joint_coord_count, targets, 6].

        Targets, configurations and free DOFs (None for all) are those of `at`; targets are moved by `apart` [m or rad],
        shape [n], None for `APART`.
        """
        n, axes = len(joint_q), range(3 if orientations_xyzw is None else 6)
        free = np.ones((n, self.robot.joint_dof_count), dtype=bool) if free is None else free
        apart = np.full(n, APART) if apart is None else apart
        steps = [(target, axis, s) for target in range(len(self.links)) for axis in axes for s in STEPS]
        moved = [moved_target(positions, orientations_xyzw, target, axis, s * apart) for target, axis, s in steps]
        turns = None if orientations_xyzw is None else np.concatenate([turned for _, turned in moved])
        starts = np.tile(joint_q, (len(steps), 1)), np.tile(free, (len(steps), 1))
        minima = self.at(np.concatenate([shifted for shifted, _ in moved]), turns, *starts)
        by_step = minima.reshape(len(self.links), len(axes), len(STEPS), *joint_q.shape)
        found = np.zeros((*joint_q.shape, len(self.links), 6))
        found[..., : len(axes)] = np.einsum("s,tasnc->ncta", SHARES, by_step) / apart[:, None, None, None]
        return found

    def errors(self, positions: Array, orientations_xyzw: Array | None, joint_q: Array) -> Array:
        """Give the weighted errors of all targets: places, then twice the vector of what is left to turn."""
        tips = self._tips(joint_q)[0]
        parts = [tips[..., :3] - positions]
        if orientations_xyzw is not None:
            left = transforms.quaternion_multiply(tips[..., 3:], transforms.quaternion_conjugate(orientations_xyzw))
            parts.append(2.0 * ROTATION_LENGTH * left[..., :3] * np.where(left[..., 3:] < 0.0, -1.0, 1.0))
        return np.concatenate(parts, axis=-1).reshape(len(joint_q), -1)

    def _tips(self, joint_q: Array) -> tuple[Array, Array]:
        """Give the poses of the tools, shape [n, targets, 7], and from the links to them [m], [n, targets, 3]."""
        poses = self.robot.forward_kinematics(joint_q, self.links)
        links = np.concatenate([poses.positions, poses.orientations_xyzw], axis=-1)
        if self.tools is None:
            return links, np.zeros_like(poses.positions)
        tools = np.broadcast_to(self.tools, links.shape)
        return transforms.transform_multiply(links, tools), transforms.quaternion_rotate(links[..., 3:], tools[..., :3])

    def _newton(self, positions: Array, orientations: Array | None, joint_q: Array, free: NDArray[np.intp]) -> Array:
        """Solve problems with the same free DOFs, shape [n, joint_coord_count]."""
        found, left = np.full_like(joint_q, np.nan), np.arange(len(joint_q))
        for _ in range(NEWTON_STEPS):
            given = positions[left], None if orientations is None else orientations[left]
            rest = self._rest(*given, joint_q, free)
            slope = self._by_dofs(partial(self._rest, *given, free=free), joint_q, free)
            step = np.zeros((len(left), self.robot.joint_dof_count))
            step[:, free] = -np.einsum("nij,nj->ni", np.linalg.pinv(slope, rcond=LEAST_SHARE), rest)
            joint_q = self.robot.integrate(joint_q, step)
            is_settled = np.abs(step).max(axis=1) < SETTLED
            found[left[is_settled]] = joint_q[is_settled]
            left, joint_q = left[~is_settled], joint_q[~is_settled]
            if not len(left):
                break
        return found

    def _rest(self, positions: Array, orientations: Array | None, joint_q: Array, free: NDArray[np.intp]) -> Array:
        """Give what is zero at a minimum, shape [k n, equations], of n problems at k configurations [k n, ..] each."""
        n = len(joint_q)
        given = _tiled(positions, orientations, n // len(positions))
        pull = self._pull(joint_q)[:, free]
        if not self.is_met:
            error = self.errors(*given, joint_q)
            slope = self._by_dofs(lambda q: self.errors(*_tiled(*given, len(q) // n), q), joint_q, free)
            return np.asarray(np.einsum("nrd,nr->nd", slope, error) + pull)
        rows = 3 if orientations is None else 6
        jacobian = self.robot.jacobian(joint_q, self.links)
        lever = self._tips(joint_q)[1][..., None]
        jacobian[:, :, :3] += np.cross(jacobian[:, :, 3:], lever, axis=2)
        jacobian = jacobian[:, :, :rows].reshape(n, -1, self.robot.joint_dof_count)[:, :, free]
        along = np.einsum("nij,nj->ni", np.linalg.pinv(jacobian), np.einsum("nij,nj->ni", jacobian, pull))
        return np.hstack([self.errors(*given, joint_q), pull - along])

    def _pull(self, joint_q: Array) -> Array:
        """Give the gradient of the posture and of the one-sided cost, shape [n, joint_dof_count]."""
        weight = self.posture_weight**2
        found = np.zeros((len(joint_q), self.robot.joint_dof_count))
        scalar = np.flatnonzero(self.robot.dof_coordinate >= 0)
        own = self.robot.dof_coordinate[scalar]
        if self.reference is not None:
            found[:, scalar] += weight * (joint_q - self.reference)[:, own]
            for first_dof, first in self._quaternions():
                part = slice(first, first + 4)
                back = transforms.quaternion_conjugate(self.reference[None, part])
                turn = transforms.quaternion_multiply(joint_q[:, part], back)
                found[:, first_dof : first_dof + 3] += 2.0 * weight * turn[:, 3:] * turn[:, :3]  # of 1/2 |2 vec|^2
        if self.lower is not None and self.upper is not None:
            outside = np.maximum(joint_q - self.upper, 0.0) - np.maximum(self.lower - joint_q, 0.0)
            found[:, scalar] += self.limit_weight**2 * outside[:, own]
        return found

    def _quaternions(self) -> list[tuple[int, int]]:
        """Give the first DOF and the first coordinate of each quaternion."""
        robot = self.robot
        ends = zip(robot.joint_qd_start[1:].tolist(), robot.joint_q_start[1:].tolist(), strict=True)
        return [(dof - 3, coordinate - 4) for dof, coordinate in ends if dof and robot.dof_coordinate[dof - 1] < 0]

    def _by_dofs(self, values: Callable[[Array], Array], joint_q: Array, free: NDArray[np.intp]) -> Array:
        """Give the derivatives of values of configurations by DOFs, shape [n, values, free DOFs]."""
        moves = np.eye(self.robot.joint_dof_count)[free]
        steps = (STEPS[:, None, None] * APART * moves).reshape(-1, moves.shape[1])
        n = len(joint_q)
        many = self.robot.integrate(np.tile(joint_q, (len(steps), 1)), np.repeat(steps, n, axis=0))
        found = values(many).reshape(len(STEPS), len(free), n, -1)
        return np.asarray(np.einsum("s,sdnr->nrd", SHARES / APART, found))


def moved_target(
    positions: Array, orientations_xyzw: Array | None, target: int, axis: int, by: float | Array
) -> tuple[Array, Array | None]:
    """Give targets of which one has moved or turned about an axis of the world, in each problem by so much."""
    positions = positions.copy()
    if axis < 3 or orientations_xyzw is None:
        positions[:, target, axis] += by
        return positions, orientations_xyzw
    orientations_xyzw = orientations_xyzw.copy()
    turn = transforms.quaternion_exp(np.atleast_1d(by)[:, None] * np.eye(3)[axis - 3])
    orientations_xyzw[:, target] = transforms.quaternion_multiply(turn, orientations_xyzw[:, target])
    return positions, orientations_xyzw


def _tiled(positions: Array, orientations_xyzw: Array | None, times: int) -> tuple[Array, Array | None]:
    turns = None if orientations_xyzw is None else np.tile(orientations_xyzw, (times, 1, 1))
    return np.tile(positions, (times, 1, 1)), turns
