"""Poses that links shall have and a posture, weighed against each other, and their constrained minima in float64.

The rows are those of `IKObjectivePose` and `IKObjectivePosture`. The minimum next to a configuration is found by damped
Gauss-Newton steps that never raise the cost, from the robot's kinematics on the host; no code of the solvers.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ik_service.mechanism.transforms import quaternion_conjugate, quaternion_multiply
from ik_service.robots import RobotModel
from objectives import IKObjectivePose, IKObjectivePosture

ITERATIONS = 200
DAMPING_START = 1e-6
DAMPING_RANGE = (1e-12, 1e6)
GAIN_LEAST = 1e-13  # of the cost: what a step gains at the end


@dataclass(frozen=True)
class WeightedPoses:
    """Poses of links of a robot without followers, within reach or not, and a posture of the joints with one DOF."""

    robot: RobotModel
    links: tuple[str, ...]
    positions: np.ndarray  # [m], [n, links, 3]
    orientations_xyzw: np.ndarray  # [n, links, 4]
    posture: np.ndarray  # [n, joint_coord_count]
    weight: float  # of the posture's rows [m/rad or 1]

    @classmethod
    def draw(cls, robot, links, count, random_seed, *, away, weight):
        """Draw poses of random configurations, moved by `away` [m] at random, and postures beyond the limits."""
        rng = np.random.default_rng(random_seed)
        poses = robot.forward_kinematics(robot.random_joint_q(rng, count), list(links))
        positions = poses.positions + rng.normal(0.0, away, poses.positions.shape)
        posture = robot.random_joint_q(rng, count)
        middle = robot.mid_joint_q
        posture = middle + 1.2 * (posture - middle)
        for first in robot.quaternion_starts.values():
            posture[:, first : first + 4] = middle[first : first + 4]

        given = (one.astype(np.float32).astype(np.float64) for one in (positions, poses.orientations_xyzw, posture))
        return cls(robot, tuple(links), *given, float(np.float32(weight)))

    @cached_property
    def joints(self):
        """The joints of the posture: those of one DOF that is a coordinate."""
        sizes = zip(np.diff(self.robot.joint_qd_start), np.diff(self.robot.joint_q_start), strict=True)
        return [name for name, size in zip(self.robot.joint_names, sizes, strict=True) if size == (1, 1)]

    def objectives(self):
        """Return what a solver minimises for them."""
        poses = [
            IKObjectivePose(link, self.positions[:, k], self.orientations_xyzw[:, k])
            for k, link in enumerate(self.links)
        ]
        return [*poses, IKObjectivePosture(self.posture, weight=self.weight, joints=self.joints)]

    def costs(self, joint_q):
        """Return 1/2 |r|^2 at configurations, one per problem."""
        return 0.5 * (self._rows(self._taken(joint_q), np.arange(len(joint_q)))[0] ** 2).sum(axis=1)

    def least_costs(self, joint_q):
        """Return 1/2 |r|^2 at the minima within the limits that lie next to configurations, one per problem."""
        joint_q, left = self._taken(joint_q), np.arange(len(joint_q))
        residuals, jacobian = self._rows(joint_q, left)
        damping = np.full(len(joint_q), DAMPING_START)
        for _ in range(ITERATIONS):
            trial = self._stepped(joint_q[left], residuals[left], jacobian[left], damping[left])
            found, slopes = self._rows(trial, left)
            before, after = (residuals[left] ** 2).sum(axis=1), (found**2).sum(axis=1)
            better, small = after < before, before - after < GAIN_LEAST * before
            taken = left[better]
            joint_q[taken], residuals[taken], jacobian[taken] = trial[better], found[better], slopes[better]
            over = np.where(better, small, damping[left] >= DAMPING_RANGE[1])
            damping[left] = np.clip(damping[left] * np.where(better, 0.2, 8.0), *DAMPING_RANGE)
            left = left[~over]
            if not len(left):
                break
        return 0.5 * (residuals**2).sum(axis=1)

    @cached_property
    def _limits(self):
        """Limits of the DOFs; a rotation has none."""
        robot, own = self.robot, self.robot.dof_coordinate >= 0
        return np.where(own, robot.joint_limit_lower, -np.inf), np.where(own, robot.joint_limit_upper, np.inf)

    @cached_property
    def _moves(self):
        """1 where a DOF moves a link, [links, DOFs]."""
        robot = self.robot
        moves = np.zeros((len(self.links), robot.joint_dof_count))
        for k, link in enumerate(self.links):
            body = robot.link_frame(link)[0]
            while body >= 0:
                moves[k, robot.joint_qd_start[body] : robot.joint_qd_start[body + 1]] = 1.0
                body = int(robot.joint_parent[body])
        return moves

    def _taken(self, joint_q):
        """Configurations in float64, within the limits and with quaternions of unit length."""
        moved = joint_q.astype(np.float64)
        for first in self.robot.quaternion_starts.values():
            moved[:, first : first + 4] /= np.linalg.norm(moved[:, first : first + 4], axis=1, keepdims=True)
        return self._within(moved)

    def _within(self, joint_q):
        own, (lower, upper) = self.robot.dof_coordinate >= 0, self._limits
        coordinates = self.robot.dof_coordinate[own]
        joint_q[:, coordinates] = np.clip(joint_q[:, coordinates], lower[own], upper[own])
        return joint_q

    def _stepped(self, joint_q, residuals, jacobian, damping):
        """Configurations after a step of the DOFs that no limit holds."""
        lower, upper = self._limits
        own = self.robot.dof_coordinate >= 0
        place = np.zeros((len(joint_q), len(own)))
        place[:, own] = joint_q[:, self.robot.dof_coordinate[own]]
        gradient = np.einsum("nrd,nr->nd", jacobian, residuals)
        held = ((place <= lower) & (gradient > 0.0)) | ((place >= upper) & (gradient < 0.0))
        free = np.where(held[:, None], 0.0, jacobian)
        normal = np.einsum("nri,nrj->nij", free, free) + damping[:, None, None] * np.eye(len(own))
        step = np.linalg.solve(normal, np.where(held, 0.0, -gradient)[..., None])[..., 0]
        return self._within(self.robot.integrate(joint_q, step))

    def _rows(self, joint_q, which):
        """Residuals [n, rows] and their Jacobian [n, rows, DOFs] of problems."""
        robot = self.robot
        poses, twists = robot.forward_kinematics(joint_q, list(self.links)), robot.motion_subspace(joint_q)
        residuals, slopes = [], []
        for k, moves in enumerate(self._moves):
            position = poses.positions[:, k]
            angular = twists[..., 3:].swapaxes(1, 2) * moves
            linear = (twists[..., :3] + np.cross(twists[..., 3:], position[:, None])).swapaxes(1, 2) * moves
            target = quaternion_conjugate(self.orientations_xyzw[which, k])
            error = quaternion_multiply(poses.orientations_xyzw[:, k], target)
            error *= np.where(error[:, 3:] < 0.0, -1.0, 1.0)
            residuals += [position - self.positions[which, k], 2.0 * error[:, :3]]
            # d(2 vec) = (w - [vec]x) omega
            turning = error[:, 3, None, None] * angular - np.cross(error[:, :3, None], angular, axis=1)
            slopes += [linear, turning]
        joints = [robot.joint_names.index(name) for name in self.joints]
        coordinates, dofs = robot.joint_q_start[joints], robot.joint_qd_start[joints]
        drawn = np.zeros((len(joint_q), len(joints), robot.joint_dof_count))
        drawn[:, np.arange(len(joints)), dofs] = self.weight
        residuals.append(self.weight * (joint_q - self.posture[which])[:, coordinates])
        return np.concatenate(residuals, axis=1), np.concatenate([*slopes, drawn], axis=1)
