"""Rows of objectives and their exact derivatives in float64, from host kinematics, apart from the statements.

An oracle gives rows [n, row_count] and their derivatives by all DOFs [n, row_count, joint_dof_count]; followers and
locked DOFs have columns of their own, as in the objectives' contract. `Island.active` sums them up.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ik_service.compiler import FIXED, IslandSignature, build_program, coordinate_names
from ik_service.compiler.half_angle import FLOAT64_ERROR
from ik_service.mechanism.transforms import quaternion_conjugate, quaternion_multiply, quaternion_rotate
from ik_service.robots import JointType
from objectives.expression import evaluate
from tests.objectives import row_values


@dataclass(frozen=True)
class Oracle:
    """Rows and derivatives, both functions of configurations [n, joint_coord_count]."""

    rows: Callable
    jacobian: Callable


def numbers(objective, name, problem=0):
    """Data of a bound objective as its device array holds them, in float64."""
    array = objective.data(name).numpy().astype(np.float64)
    return array[min(problem, len(array) - 1)]


def moving_dofs(robot, link):
    body = robot.link_frame(link)[0]
    found = np.zeros(robot.joint_dof_count, dtype=bool)
    while body >= 0:
        found[robot.joint_qd_start[body] : robot.joint_qd_start[body + 1]] = True
        body = int(robot.joint_parent[body])
    return found


def frame_motion(robot, q, link, offset=None):
    """Position, orientation, and velocities of a frame per unit of each DOF, linear at its origin [n, dofs, 3] each."""
    poses, subspace = robot.forward_kinematics(q, [link]), robot.motion_subspace(q)
    position, turn = poses.positions[:, 0], poses.orientations_xyzw[:, 0]
    if offset is not None:
        position = position + quaternion_rotate(turn, np.broadcast_to(offset[:3], position.shape))
        turn = quaternion_multiply(turn, np.broadcast_to(offset[3:], turn.shape))
    twists = subspace * moving_dofs(robot, link)[None, :, None]
    angular = twists[..., 3:]
    return position, turn, twists[..., :3] + np.cross(angular, position[:, None]), angular


def seen_motion(robot, q, link, offset, reference):
    """The same, seen from a reference link."""
    position, turn, linear, angular = frame_motion(robot, q, link, offset)
    if reference is None:
        return position, turn, linear, angular
    base, base_turn, base_linear, base_angular = frame_motion(robot, q, reference)
    back = quaternion_conjugate(base_turn)
    arm = position - base
    linear = linear - base_linear - np.cross(base_angular, arm[:, None])

    def turned(vectors):
        quaternions = np.broadcast_to(back[:, None], (*vectors.shape[:2], 4))
        return quaternion_rotate(quaternions, vectors)

    angular = angular - base_angular
    return quaternion_rotate(back, arm), quaternion_multiply(back, turn), turned(linear), turned(angular)


def rotation_error(turn, goal):
    """Error quaternion of the short way, [n, 4]."""
    error = quaternion_multiply(turn, quaternion_conjugate(np.broadcast_to(goal, turn.shape)))
    return error * np.where(error[:, 3:] < 0.0, -1.0, 1.0)


def rotation_derivative(error, angular):
    """Derivatives of 2 vec(e) by DOFs that turn with `angular` [n, dofs, 3]: [n, 3, dofs]."""
    return (error[:, None, 3:] * angular + np.cross(angular, error[:, None, :3])).transpose(0, 2, 1)


def pose(robot, objective, *, kinds=("position", "rotation"), problem=0):
    """Pose, position, rotation and relative-pose objectives."""
    offset = None if objective.offset is None else numbers(objective, "offset", problem)
    weights = objective.weight * numbers(objective, "row_weights", problem)

    def motion(q):
        return seen_motion(robot, q, objective.link, offset, objective.reference_link)

    def rows(q):
        position, turn, _, _ = motion(q)
        parts = []
        if "position" in kinds:
            parts.append(position - numbers(objective, "target_positions", problem))
        if "rotation" in kinds:
            parts.append(2.0 * rotation_error(turn, numbers(objective, "target_orientations_xyzw", problem))[:, :3])
        return np.hstack(parts) * weights

    def jacobian(q):
        _, turn, linear, angular = motion(q)
        parts = []
        if "position" in kinds:
            parts.append(linear.transpose(0, 2, 1))
        if "rotation" in kinds:
            error = rotation_error(turn, numbers(objective, "target_orientations_xyzw", problem))
            parts.append(rotation_derivative(error, angular))
        return np.concatenate(parts, axis=1) * weights[:, None]

    return Oracle(rows, jacobian)


def look_at(robot, objective):
    point, axis, weights = (numbers(objective, name) for name in ("target_points", "axis", "row_weights"))
    weights = weights * objective.weight

    def parts(q):
        position, turn, linear, angular = frame_motion(robot, q, objective.link)
        arm = point - position
        distance = np.linalg.norm(arm, axis=1, keepdims=True)
        return quaternion_rotate(turn, np.broadcast_to(axis, arm.shape)), arm / distance, distance, linear, angular

    def rows(q):
        pointing, wanted, _, _, _ = parts(q)
        return (pointing - wanted) * weights

    def jacobian(q):
        pointing, wanted, distance, linear, angular = parts(q)
        along = np.einsum("ni,ndi->nd", wanted, linear)[..., None] * wanted[:, None]
        by_dof = np.cross(angular, pointing[:, None]) + (linear - along) / distance[:, None]
        return by_dof.transpose(0, 2, 1) * weights[:, None]

    return Oracle(rows, jacobian)


def axis_align(robot, objective):
    names = ("axis", "target_axis", "row_weights")
    axis, wanted, weights = (numbers(objective, name) for name in names)
    weights = weights * objective.weight

    def pointing(q):
        _, turn, _, angular = seen_motion(robot, q, objective.link, None, objective.reference_link)
        return quaternion_rotate(turn, np.broadcast_to(axis, (len(q), 3))), angular

    def jacobian(q):
        now, angular = pointing(q)
        return np.cross(angular, now[:, None]).transpose(0, 2, 1) * weights[:, None]

    return Oracle(lambda q: (pointing(q)[0] - wanted) * weights, jacobian)


def along(robot, objective, directions):
    """Distances from a point along directions: the rows of a plane (its normal) or of a line (two across it)."""
    point, weights = numbers(objective, "points"), objective.weight * numbers(objective, "row_weights")
    offset = None if objective.offset is None else numbers(objective, "offset")
    across = np.array(directions(objective)) * weights[:, None]

    def motion(q):
        return seen_motion(robot, q, objective.link, offset, objective.reference_link)

    return Oracle(lambda q: (motion(q)[0] - point) @ across.T, lambda q: np.einsum("ri,ndi->nrd", across, motion(q)[2]))


def center_of_mass(robot, objective):
    """From the masses of the links, one by one."""
    target, weights = numbers(objective, "target_positions"), objective.weight * numbers(objective, "row_weights")
    shares = robot.link_mass / robot.link_mass.sum()

    def motion(q):
        position, linear = 0.0, 0.0
        for share, name, com in zip(shares, robot.link_names, robot.link_com, strict=True):
            own, _, moved, _ = frame_motion(robot, q, name, np.array([*com, 0.0, 0.0, 0.0, 1.0]))
            position, linear = position + share * own, linear + share * moved
        return position, linear

    return Oracle(
        lambda q: (motion(q)[0] - target) * weights, lambda q: motion(q)[1].transpose(0, 2, 1) * weights[:, None]
    )


def posture(robot, objective, joints=None, problem=0):
    """Rows of scalars first and then those of quaternions, as a program holds them; their weights are by DOF."""
    reference = numbers(objective, "joint_q_reference", problem)
    weights = objective.weight * numbers(objective, "row_weights", problem)
    chosen = [robot.joint_index(name) for name in (joints if joints is not None else robot.joint_names)]

    def both(q):
        rows, derivatives, is_turn = [], [], []
        for joint in chosen:
            for dof in range(robot.joint_qd_start[joint], robot.joint_qd_start[joint + 1]):
                c = robot.dof_coordinate[dof]
                if c >= 0:
                    rows.append((q[:, c] - reference[c])[:, None])
                    unit = np.zeros((len(q), 1, robot.joint_dof_count))
                    unit[:, 0, dof] = 1.0
                    derivatives.append(unit)
                    is_turn.append(False)
            if JointType(robot.joint_type[joint]).quaternion_offset is not None:
                own = slice(robot.joint_q_start[joint + 1] - 4, robot.joint_q_start[joint + 1])
                error = rotation_error(q[:, own], reference[own])
                rows.append(2.0 * error[:, :3])
                angular = np.zeros((len(q), robot.joint_dof_count, 3))
                angular[:, robot.joint_qd_start[joint + 1] - 3 : robot.joint_qd_start[joint + 1]] = np.eye(3)
                derivatives.append(rotation_derivative(error, angular))
                is_turn += [True] * 3
        order = np.argsort(is_turn, kind="stable")
        return (np.hstack(rows) * weights)[:, order], (np.concatenate(derivatives, axis=1) * weights[:, None])[:, order]

    return Oracle(lambda q: both(q)[0], lambda q: both(q)[1])


def joint_limit(robot, objective):
    lower, upper = numbers(objective, "joint_limit_lower"), numbers(objective, "joint_limit_upper")
    limited = np.flatnonzero((np.isfinite(lower) | np.isfinite(upper)) & (robot.dof_coordinate >= 0))
    columns, weight = robot.dof_coordinate[limited], objective.weight

    def rows(q):
        values = q[:, columns]
        return weight * (np.maximum(values - upper[limited], 0.0) - np.maximum(lower[limited] - values, 0.0))

    def jacobian(q):
        outside = (q[:, columns] > upper[limited]) | (q[:, columns] < lower[limited])
        result = np.zeros((len(q), len(limited), robot.joint_dof_count))
        result[:, np.arange(len(limited)), limited] = weight * outside
        return result

    return Oracle(rows, jacobian)


def pose_at(robot, q, objective):
    """Position and quaternion of an objective's link, [n, 7]."""
    return np.hstack(frame_motion(robot, q, objective.link)[:2])


def functions(robot, objective):
    """The rows of `function_rows`."""
    (shift,), weights = numbers(objective, "shift"), objective.weight * numbers(objective, "row_weights")
    column = robot.dof_coordinate[objective.dof]

    def parts(q):
        position, turn, linear, angular = frame_motion(robot, q, objective.link)
        upright = quaternion_rotate(turn, np.tile([0.0, 0.0, 1.0], (len(q), 1)))
        return *position.T, upright, linear.transpose(2, 0, 1), np.cross(angular, upright[:, None]).transpose(2, 0, 1)

    def jacobian(q):
        x, y, z, upright, (dx, dy, dz), (du0, _, du2) = parts(q)
        x, y, z, a, c, angle = (v[:, None] for v in (x, y, z, upright[:, 0], upright[:, 2], q[:, column]))
        by_angle = np.zeros((len(q), robot.joint_dof_count))
        by_angle[:, objective.dof] = -(np.sin(angle) * z)[:, 0]
        found = [
            3.0 * np.cos(3.0 * x + shift) * dx + np.cos(angle) * dz + by_angle,
            -np.exp(-z) * dz - 2.0 * (x * dx + y * dy + z * dz) / (x * x + y * y + z * z + 0.1),
            -0.9 * du2 / np.sqrt(1.0 - 0.81 * c * c) * np.abs(shift - y) - np.arccos(0.9 * c) * np.sign(shift - y) * dy,
            ((x + 4.0) * dy - (y - shift) * dx) / ((x + 4.0) ** 2 + (y - shift) ** 2)
            + ((c + 1.5) * du0 - a * du2) / ((c + 1.5) ** 2 + a * a),
        ]
        return np.stack(found, axis=1) * weights[:, None]

    return Oracle(lambda q: row_values.functions(pose_at(robot, q, objective), q[:, column], shift) * weights, jacobian)


def choices(robot, objective):
    """The rows of `choice_rows`."""
    (shift,), weights = numbers(objective, "shift"), objective.weight * numbers(objective, "row_weights")
    column = robot.dof_coordinate[objective.dof]

    def parts(q):
        position, _, linear, _ = frame_motion(robot, q, objective.link)
        (x, y, z), angle = position.T[..., None], q[:, column][:, None]
        by_angle = np.zeros((len(q), robot.joint_dof_count))
        by_angle[:, objective.dof] = 1.0
        return (x, y, z, angle), (*linear.transpose(2, 0, 1), by_angle), ((x < y) & (z >= shift)) | (angle > 0.5)

    def jacobian(q):
        (x, y, z, angle), (dx, dy, dz, by_angle), inside = parts(q)
        second = np.where(x > 0.1, 0.5 / np.sqrt(np.maximum(x, 0.1)) * dx, 0.5 * dy)
        found = [np.where(inside, x * dy + y * dx, -dz), np.where(angle <= 0.0, angle * dz + z * by_angle, second)]
        return np.stack(found, axis=1) * weights[:, None]

    return Oracle(lambda q: row_values.choices(pose_at(robot, q, objective), q[:, column], shift) * weights, jacobian)


def stacked(oracles):
    return Oracle(
        lambda q: np.hstack([one.rows(q) for one in oracles]),
        lambda q: np.concatenate([one.jacobian(q) for one in oracles], axis=1),
    )


built = functools.cache(build_program)


@dataclass
class Island:
    """Objectives on a robot, and the program of some of its DOFs and rows.

    `oracles` makes the oracles once the objectives are bound: a function of robot and objective per objective.
    """

    name: str
    robot: object
    objectives: list
    oracles: list
    target_count: int = 0
    starts: list = field(default_factory=list)

    def __post_init__(self):
        self.model, row = self.robot.on_device("cpu"), 0
        for objective in self.objectives:
            objective.bind_model(self.model)
            objective.bind_device("cpu")
            self.starts.append(row)
            row += objective.residual_dim()
        made = [make(self.robot, one) for make, one in zip(self.oracles, self.objectives, strict=True)]
        self.row_count, self.oracle = row, stacked(made)

    def program(self, dofs=None, rows=None, half_angle_error=FLOAT64_ERROR):
        dofs = range(self.robot.active_dof_count) if dofs is None else dofs
        rows = range(self.row_count) if rows is None else rows
        arguments = (self.robot, self.model, self.objectives, self.starts, dofs, rows, range(self.target_count))
        return built(IslandSignature.of(*arguments, half_angle_error))

    def touched(self):
        """Active DOFs on which some row depends; the three of a rotation go together."""
        q = self.robot.random_joint_q(np.random.default_rng(0), 5)
        depends = np.abs(self.active(self.oracle.jacobian(q))).max(axis=(0, 1)) > 1e-12
        for first in self.program().quaternions:
            depends[first : first + 3] = depends[first : first + 3].any()
        return [int(a) for a in np.flatnonzero(depends)]

    def data(self, program, problem=0):
        """Values of the program's inputs, in its order; locked joints are where the robot holds them."""
        return [
            self.robot.mid_joint_q[d.column]
            if d.field == FIXED
            else numbers(self.objectives[d.objective], d.field, problem)[d.column]
            for d in program.inputs
        ]

    def values(self, program, q, problem=0):
        """Values of the program's variables at configurations [n, joint_coord_count]."""
        trials = configuration(self.robot, program, q).T
        names = [f"trial{a}{component}" for a, component in coordinate_names(program)]
        values = dict(zip(names, trials, strict=True))
        inputs = zip(program.inputs, self.data(program, problem), strict=True)
        values |= {one.name: q[:, one.column] if one.field == FIXED else value for one, value in inputs}
        for name, (variable, multiplier, offset) in program.halves.items():
            angle = multiplier * values[variable] + offset
            values[name] = 0.5 * (angle - 2.0 * np.pi * np.round(angle / (2.0 * np.pi)))
        return values

    def active(self, jacobian):
        """Columns of the active DOFs [n, rows, active_dof_count], followers counted in."""
        result = np.zeros((*jacobian.shape[:2], self.robot.active_dof_count))
        for dof, a in enumerate(self.robot.dof_active):
            if a >= 0:
                result[..., a] += self.robot.dof_multiplier[dof] * jacobian[..., dof]
        return result


def columns(robot, program):
    """Column in joint_q of every coordinate of a program's state."""
    found = []
    for a, component in coordinate_names(program):
        dof = robot.active_dof[a]
        if component:
            joint = next(j for j in range(robot.joint_count) if robot.joint_qd_start[j + 1] - 3 == dof)
            found.append(int(robot.joint_q_start[joint + 1]) - 4 + "xyzw".index(component))
        else:
            found.append(int(robot.dof_coordinate[dof]))
    return found


def configuration(robot, program, q):
    """The coordinates of a program, in the order of its state, [n, coordinates]."""
    return q[:, columns(robot, program)]


def evaluated(outputs, values, count):
    """Outputs as an array [n, outputs]."""
    return np.stack([np.broadcast_to(x, count) for x in evaluate(outputs, values)], axis=1)
