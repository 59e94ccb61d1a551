"""One table with a case for every built-in objective: how it is made, and its residual in float64."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import objectives
from ik_service.mechanism.transforms import (
    quaternion_conjugate,
    quaternion_exp,
    quaternion_multiply,
    quaternion_rotate,
    transform_inverse,
    transform_multiply,
)
from tests.objectives.conftest import Scene, scene
from tests.objectives.joint_rows import JOINTS
from tests.objectives.loop_rows import LOOPS
from tests.objectives.motion_rows import MOTIONS
from tests.objectives.near_rows import NEAR_POSES, link_pose
from tests.objectives.objectives_of_tests import Choices, Functions
from tests.objectives.row_values import choices, functions, perpendiculars

PROBLEMS = 3
REGIMES = ("random", "near_identity", "near_pi", "on_the_limit")
NEAR = {"near_identity": 1e-3, "near_pi": np.pi - 0.05}  # [rad] rotation from target to configuration


@dataclass(frozen=True)
class Data:
    """Numbers of one test: per problem where the first dimension is PROBLEMS."""

    scene: Scene
    joint_q: np.ndarray  # [PROBLEMS, joint_coord_count]
    regime: str
    offset: np.ndarray  # [PROBLEMS, 7]
    row_weights: np.ndarray  # [PROBLEMS, many]
    turn_xyzw: np.ndarray  # [PROBLEMS, 4] rotation from target to configuration
    shift: np.ndarray  # [PROBLEMS, 3] from target to configuration
    axis: np.ndarray  # [3]


@dataclass(frozen=True)
class Case:
    """An objective, and its residual as the documentation states it, in float64."""

    name: str
    make: Callable[[Data], objectives.IKObjective]
    residual: Callable[[Data, np.ndarray, np.ndarray], np.ndarray]  # (data, joint_q [n, coords], problem [n])


def seen_pose(data, joint_q, problem, *, offset=False, reference=None):
    pose = link_pose(data, data.scene.tip, joint_q)
    if offset:
        pose = transform_multiply(pose, data.offset[problem])
    if reference is not None:
        pose = transform_multiply(transform_inverse(link_pose(data, reference, joint_q)), pose)
    return pose


def target_poses(data, **frame):
    """Targets that lie by `shift` and `turn` before the configuration of their problem."""
    pose = seen_pose(data, data.joint_q, np.arange(PROBLEMS), **frame)
    turned = quaternion_multiply(quaternion_conjugate(data.turn_xyzw), pose[:, 3:])
    return np.concatenate([pose[:, :3] - data.shift, turned], axis=1)


def rotation_rows(q_xyzw, target_xyzw):
    error = quaternion_multiply(q_xyzw, quaternion_conjugate(target_xyzw))
    return 2.0 * np.where(error[:, 3:] < 0.0, -1.0, 1.0) * error[:, :3]


def pose_rows(data, joint_q, problem, **frame):
    pose, target = seen_pose(data, joint_q, problem, **frame), target_poses(data, **frame)[problem]
    return np.concatenate([pose[:, :3] - target[:, :3], rotation_rows(pose[:, 3:], target[:, 3:])], axis=1)


def turned_axes(data, **frame):
    """Directions that lie at `turn` from the axis, as seen at the configurations of the problems."""
    axis = quaternion_rotate(seen_pose(data, data.joint_q, np.arange(PROBLEMS), **frame)[:, 3:], data.axis)
    across = unit(np.cross(axis, [0.3, 0.5, -0.4]))
    angle = 2.0 * np.arccos(np.clip(np.abs(data.turn_xyzw[:, 3:]), 0.0, 1.0))
    return np.cos(angle) * axis + np.sin(angle) * across


def look_at_points(data, **frame):
    """Points that lie at `turn` from the axis, as seen from the configurations of the problems."""
    pose = seen_pose(data, data.joint_q, np.arange(PROBLEMS), **frame)
    return pose[:, :3] + 0.8 * turned_axes(data, **frame)


def look_at_rows(data, joint_q, problem, **frame):
    pose = seen_pose(data, joint_q, problem, **frame)
    return quaternion_rotate(pose[:, 3:], data.axis) - unit(look_at_points(data, **frame)[problem] - pose[:, :3])


def axis_rows(data, joint_q, problem, **frame):
    axes = quaternion_rotate(seen_pose(data, joint_q, problem, **frame)[:, 3:], data.axis)
    return axes - turned_axes(data, **frame)[problem]


def from_point(data, joint_q, problem, **frame):
    """From points that lie by `shift` before the configurations of the problems, to the frame."""
    return pose_rows(data, joint_q, problem, **frame)[:, :3]


def turn_rows(data, joint_q, problem, **frame):
    return pose_rows(data, joint_q, problem, **frame)[:, 3:]


def plane_rows(data, joint_q, problem, **frame):
    return (turned_axes(data)[problem] * from_point(data, joint_q, problem, **frame)).sum(axis=1, keepdims=True)


def line_rows(data, joint_q, problem, **frame):
    arm = from_point(data, joint_q, problem, **frame)
    rows = [(across * arm).sum(axis=1) for across in perpendiculars(turned_axes(data)[problem])]
    return np.stack(rows, axis=1)


def mass_targets(data):
    """Points that lie by `shift` before the centre of mass at the configurations of the problems."""
    return data.scene.robot.center_of_mass(data.joint_q) - data.shift


def mass_rows(data, joint_q, problem, **_frame):
    return data.scene.robot.center_of_mass(joint_q) - mass_targets(data)[problem]


def limit_rows(data, joint_q, problem):
    robot = data.scene.robot
    limited = np.isfinite(robot.joint_limit_lower) | np.isfinite(robot.joint_limit_upper)
    lower, upper = robot.joint_limit_lower[limited], robot.joint_limit_upper[limited]
    q = joint_q[:, robot.dof_coordinate[limited]]
    return 0.5 * (np.maximum(q - upper, 0.0) - np.maximum(lower - q, 0.0))


def reference_configurations(data):
    """Configurations from which those of the problems are turned by `turn`, joint by joint."""
    robot = data.scene.robot
    angle = 2.0 * np.arccos(np.clip(data.turn_xyzw[:, 3], -1.0, 1.0))
    step = np.zeros((PROBLEMS, robot.joint_dof_count))
    for joint in range(robot.joint_count):
        dofs = slice(robot.joint_qd_start[joint], robot.joint_qd_start[joint + 1])
        step[:, dofs] = angle[:, None] * np.array([0.6, 0.0, 0.8, 0.6, 0.0, 0.8])[: dofs.stop - dofs.start]
    return robot.integrate(data.joint_q, -step)


def posture_rows(data, joint_q, problem, joints=None):
    robot, reference = data.scene.robot, reference_configurations(data)[problem]
    rows = []
    counted = robot.joint_names if joints is None else joints
    for joint in (k for k, name in enumerate(robot.joint_names) if name in counted):
        for dof in range(robot.joint_qd_start[joint], robot.joint_qd_start[joint + 1]):
            coordinate = robot.dof_coordinate[dof]
            if coordinate >= 0:
                rows.append(joint_q[:, coordinate] - reference[:, coordinate])
        if robot.joint_type[joint] in (4, 5):
            q = slice(robot.joint_q_start[joint + 1] - 4, robot.joint_q_start[joint + 1])
            rows += list(rotation_rows(joint_q[:, q], reference[:, q]).T)
    return np.stack(rows, axis=1)


def stated_case(name, kind, formula):
    """A case of `Functions` or `Choices`, with the first DOF."""

    def residual(data, joint_q, problem):
        q = joint_q[:, data.scene.robot.dof_coordinate[0]]
        return formula(seen_pose(data, joint_q, problem), q, data.row_weights[problem, 0])

    return Case(name, lambda data: kind(data.scene.tip, 0, data.row_weights[:, :1]), residual)


def framed_case(name, kind, rows, *, offset=False, reference=None, weight=1.0, weights=0):
    """A case of an objective about a frame, made of FRAMED; `weights` is the number of its row weights."""

    def frame(data):
        return {"offset": offset, "reference": getattr(data.scene, reference) if reference else None}

    def make(data):
        options = {"offset": data.offset} if offset else {}
        options |= {"reference_link": getattr(data.scene, reference)} if reference else {}
        options |= {"row_weights": data.row_weights[:, :weights]} if weights else {}
        return FRAMED[kind](data, target_poses(data, **frame(data)), frame(data), weight=weight, **options)

    def residual(data, joint_q, problem):
        values = rows(data, joint_q, problem, **frame(data))
        return weight * values * (data.row_weights[problem, :weights] if weights else 1.0)

    return Case(name, make, residual)


def relative_pose(data, targets, _frame, reference_link, **options):
    return objectives.IKObjectiveRelativePose(data.scene.tip, reference_link, targets[:, :3], targets[:, 3:], **options)


FRAMED = {  # objectives from data, targets as they are seen in the frame, the frame, and options
    "position": lambda d, targets, _, **o: objectives.IKObjectivePosition(d.scene.tip, targets[:, :3], **o),
    "rotation": lambda d, targets, _, **o: objectives.IKObjectiveRotation(d.scene.tip, targets[:, 3:], **o),
    "pose": lambda d, targets, _, **o: objectives.IKObjectivePose(d.scene.tip, targets[:, :3], targets[:, 3:], **o),
    "relative": relative_pose,
    "look at": lambda d, _, frame, **o: objectives.IKObjectiveLookAt(
        d.scene.tip, look_at_points(d, **frame), axis=3.0 * d.axis, **o
    ),
    "axis": lambda d, _, frame, **o: objectives.IKObjectiveAxisAlign(
        d.scene.tip, 0.1 * d.axis, 7.0 * turned_axes(d, **frame), **o
    ),
    "plane": lambda d, targets, _, **o: objectives.IKObjectivePlane(
        d.scene.tip, targets[:, :3], 3.0 * turned_axes(d), **o
    ),
    "line": lambda d, targets, _, **o: objectives.IKObjectiveLine(
        d.scene.tip, targets[:, :3], 3.0 * turned_axes(d), **o
    ),
    "mass": lambda d, _targets, _, **o: objectives.IKObjectiveCenterOfMass(mass_targets(d), **o),
}
AWAY = {"offset": True, "reference": "other"}
CASES = [
    framed_case("position", "position", from_point),
    framed_case("position_offset_reference", "position", from_point, **AWAY, weight=2.5),
    framed_case("rotation", "rotation", turn_rows),
    framed_case("rotation_offset_reference", "rotation", turn_rows, **AWAY, weights=3),
    framed_case("pose", "pose", pose_rows),
    framed_case("pose_weights_offset", "pose", pose_rows, offset=True, weight=0.7, weights=6),
    framed_case("pose_static_reference", "pose", pose_rows, reference="root"),
    framed_case("relative_pose", "relative", pose_rows, reference="other"),
    framed_case("relative_pose_offset", "relative", pose_rows, **AWAY),
    framed_case("look_at", "look at", look_at_rows),
    framed_case("look_at_offset", "look at", look_at_rows, offset=True),
    framed_case("axis_align", "axis", axis_rows),
    framed_case("axis_align_offset_reference", "axis", axis_rows, **AWAY, weight=0.4, weights=3),
    framed_case("plane", "plane", plane_rows),
    framed_case("plane_offset_reference", "plane", plane_rows, **AWAY, weights=1),
    *(Case(name, make, residual) for name, (make, residual) in (LOOPS | JOINTS | NEAR_POSES | MOTIONS).items()),
    framed_case("line", "line", line_rows),
    framed_case("line_offset_reference", "line", line_rows, **AWAY, weight=1.5, weights=2),
    framed_case("center_of_mass", "mass", mass_rows),
    framed_case("center_of_mass_weights", "mass", mass_rows, weight=3.0, weights=3),
    stated_case("functions", Functions, functions),
    stated_case("choices", Choices, choices),
    Case("joint_limit", lambda data: objectives.IKObjectiveJointLimit(0.5), limit_rows),
    Case("posture", lambda data: objectives.IKObjectivePosture(reference_configurations(data)), posture_rows),
    Case(
        "damping",
        lambda data: objectives.IKObjectiveDamping(reference_configurations(data), weight=2.0),
        lambda data, joint_q, problem: 2.0 * posture_rows(data, joint_q, problem),
    ),
    Case(
        "posture_of_some_joints",
        lambda data: objectives.IKObjectivePosture(
            reference_configurations(data), joints=data.scene.inner_joints, weight=0.3
        ),
        lambda data, joint_q, problem: 0.3 * posture_rows(data, joint_q, problem, data.scene.inner_joints),
    ),
]


def unit(values):
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def beside_the_limits(robot, joint_q):
    """Every limited coordinate a little outside one of its limits, or inside, by turns."""
    result = joint_q.copy()
    for dof in np.flatnonzero(np.isfinite(robot.joint_limit_lower)):
        for k in range(PROBLEMS):
            limits, side = ((robot.joint_limit_upper, 1.0), (robot.joint_limit_lower, -1.0))[(dof + k) % 2]
            result[k, robot.dof_coordinate[dof]] = limits[dof] + side * (0.01 if k > 0 else -0.01)
    return result


def make_data(scene_name, regime):
    where, rng = scene(scene_name), np.random.default_rng([REGIMES.index(regime), len(scene_name)])
    joint_q = where.robot.random_joint_q(rng, PROBLEMS)
    if regime == "on_the_limit":
        joint_q = beside_the_limits(where.robot, joint_q)
    angle = np.full((PROBLEMS, 1), NEAR[regime]) if regime in NEAR else rng.uniform(0.3, 2.4, (PROBLEMS, 1))
    return Data(
        where,
        joint_q,
        regime,
        offset=np.concatenate([rng.normal(0.0, 0.2, (PROBLEMS, 3)), unit(rng.normal(size=(PROBLEMS, 4)))], axis=1),
        row_weights=rng.uniform(0.5, 2.0, (PROBLEMS, 6)),
        turn_xyzw=quaternion_exp(angle * unit(rng.normal(size=(PROBLEMS, 3)))),
        shift=rng.normal(0.0, 1e-3 if regime == "near_identity" else 0.3, (PROBLEMS, 3)),
        axis=unit(rng.normal(size=3)),
    )
