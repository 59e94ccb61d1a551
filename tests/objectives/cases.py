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
from tests.objectives.near_rows import NEAR_POSES
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


def link_pose(data, link, joint_q):
    poses = data.scene.robot.forward_kinematics(joint_q, links=[link])
    return np.concatenate([poses.positions[:, 0], poses.orientations_xyzw[:, 0]], axis=1)


def seen_pose(data, joint_q, problem, *, offset=False, reference=None):
    pose = link_pose(data, data.scene.tip, joint_q)
    if offset:
        pose = transform_multiply(pose, data.offset[problem])
    if reference is not None:
        pose = transform_multiply(transform_inverse(link_pose(data, reference, joint_q)), pose)
    return pose


def target_poses(data, **options):
    """Targets that lie by `shift` and `turn` before the configuration of their problem."""
    pose = seen_pose(data, data.joint_q, np.arange(PROBLEMS), **options)
    turned = quaternion_multiply(quaternion_conjugate(data.turn_xyzw), pose[:, 3:])
    return np.concatenate([pose[:, :3] - data.shift, turned], axis=1)


def rotation_rows(q_xyzw, target_xyzw):
    error = quaternion_multiply(q_xyzw, quaternion_conjugate(target_xyzw))
    return 2.0 * np.where(error[:, 3:] < 0.0, -1.0, 1.0) * error[:, :3]


def pose_rows(data, joint_q, problem, **options):
    pose, target = seen_pose(data, joint_q, problem, **options), target_poses(data, **options)[problem]
    return np.concatenate([pose[:, :3] - target[:, :3], rotation_rows(pose[:, 3:], target[:, 3:])], axis=1)


def pose_case(name, make, rows=slice(0, 6), weight=1.0, weighted=False, **options):
    """A case of the pose family; `make` gets data and target poses."""

    def options_for(data):
        link = {"root": data.scene.root, "other": data.scene.other}.get(options.get("reference"))
        return {"offset": options.get("offset", False), "reference": link}

    def residual(data, joint_q, problem):
        values = pose_rows(data, joint_q, problem, **options_for(data))[:, rows]
        return weight * values * (data.row_weights[problem, : values.shape[1]] if weighted else 1.0)

    return Case(name, lambda data: make(data, target_poses(data, **options_for(data))), residual)


def turned_axes(data, **options):
    """Directions that lie at `turn` from the axis, as seen at the configurations of the problems."""
    axis = quaternion_rotate(seen_pose(data, data.joint_q, np.arange(PROBLEMS), **options)[:, 3:], data.axis)
    across = unit(np.cross(axis, [0.3, 0.5, -0.4]))
    angle = 2.0 * np.arccos(np.clip(np.abs(data.turn_xyzw[:, 3:]), 0.0, 1.0))
    return np.cos(angle) * axis + np.sin(angle) * across


def look_at_points(data, offset):
    """Points that lie at `turn` from the axis, as seen from the configurations of the problems."""
    pose = seen_pose(data, data.joint_q, np.arange(PROBLEMS), offset=offset)
    return pose[:, :3] + 0.8 * turned_axes(data, offset=offset)


def look_at_rows(data, joint_q, problem, offset):
    pose = seen_pose(data, joint_q, problem, offset=offset)
    arm = look_at_points(data, offset)[problem] - pose[:, :3]
    return quaternion_rotate(pose[:, 3:], data.axis) - unit(arm)


def axis_rows(data, joint_q, problem, **options):
    pose = seen_pose(data, joint_q, problem, **options)
    return quaternion_rotate(pose[:, 3:], data.axis) - turned_axes(data, **options)[problem]


def from_point(data, joint_q, problem, **options):
    """From points that lie by `shift` before the configurations of the problems, to the frame."""
    return seen_pose(data, joint_q, problem, **options)[:, :3] - target_poses(data, **options)[problem, :3]


def plane_rows(data, joint_q, problem, **options):
    return (turned_axes(data)[problem] * from_point(data, joint_q, problem, **options)).sum(axis=1, keepdims=True)


def line_rows(data, joint_q, problem, **options):
    arm = from_point(data, joint_q, problem, **options)
    rows = [(across * arm).sum(axis=1) for across in perpendiculars(turned_axes(data)[problem])]
    return np.stack(rows, axis=1)


def mass_targets(data):
    """Points that lie by `shift` before the centre of mass at the configurations of the problems."""
    return data.scene.robot.center_of_mass(data.joint_q) - data.shift


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
    for joint, name in enumerate(robot.joint_names):
        if joints is not None and name not in joints:
            continue
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


CASES = [
    pose_case(
        "position", lambda data, targets: objectives.IKObjectivePosition(data.scene.tip, targets[:, :3]), rows=slice(3)
    ),
    pose_case(
        "position_offset_reference",
        lambda data, targets: objectives.IKObjectivePosition(
            data.scene.tip, targets[:, :3], offset=data.offset, reference_link=data.scene.other, weight=2.5
        ),
        rows=slice(0, 3),
        weight=2.5,
        offset=True,
        reference="other",
    ),
    pose_case(
        "rotation",
        lambda data, targets: objectives.IKObjectiveRotation(data.scene.tip, targets[:, 3:]),
        rows=slice(3, 6),
    ),
    pose_case(
        "rotation_offset_reference",
        lambda data, targets: objectives.IKObjectiveRotation(
            data.scene.tip,
            targets[:, 3:],
            offset=data.offset,
            reference_link=data.scene.other,
            row_weights=data.row_weights[:, :3],
        ),
        rows=slice(3, 6),
        weighted=True,
        offset=True,
        reference="other",
    ),
    pose_case("pose", lambda data, targets: objectives.IKObjectivePose(data.scene.tip, targets[:, :3], targets[:, 3:])),
    pose_case(
        "pose_weights_offset",
        lambda data, targets: objectives.IKObjectivePose(
            data.scene.tip,
            targets[:, :3],
            targets[:, 3:],
            offset=data.offset,
            row_weights=data.row_weights[:, :6],
            weight=0.7,
        ),
        weight=0.7,
        weighted=True,
        offset=True,
    ),
    pose_case(
        "pose_static_reference",
        lambda data, targets: objectives.IKObjectivePose(
            data.scene.tip, targets[:, :3], targets[:, 3:], reference_link=data.scene.root
        ),
        reference="root",
    ),
    pose_case(
        "relative_pose",
        lambda data, targets: objectives.IKObjectiveRelativePose(
            data.scene.tip, data.scene.other, targets[:, :3], targets[:, 3:]
        ),
        reference="other",
    ),
    pose_case(
        "relative_pose_offset",
        lambda data, targets: objectives.IKObjectiveRelativePose(
            data.scene.tip, data.scene.other, targets[:, :3], targets[:, 3:], offset=data.offset
        ),
        offset=True,
        reference="other",
    ),
    Case(
        "look_at",
        lambda data: objectives.IKObjectiveLookAt(data.scene.tip, look_at_points(data, False), axis=3.0 * data.axis),
        lambda data, joint_q, problem: look_at_rows(data, joint_q, problem, False),
    ),
    Case(
        "look_at_offset",
        lambda data: objectives.IKObjectiveLookAt(
            data.scene.tip, look_at_points(data, True), axis=data.axis, offset=data.offset
        ),
        lambda data, joint_q, problem: look_at_rows(data, joint_q, problem, True),
    ),
    Case(
        "axis_align",
        lambda data: objectives.IKObjectiveAxisAlign(data.scene.tip, 0.1 * data.axis, 7.0 * turned_axes(data)),
        axis_rows,
    ),
    Case(
        "axis_align_offset_reference",
        lambda data: objectives.IKObjectiveAxisAlign(
            data.scene.tip,
            data.axis,
            turned_axes(data, offset=True, reference=data.scene.other),
            offset=data.offset,
            reference_link=data.scene.other,
            row_weights=data.row_weights[:, :3],
            weight=0.4,
        ),
        lambda data, joint_q, problem: (
            0.4
            * data.row_weights[problem, :3]
            * axis_rows(data, joint_q, problem, offset=True, reference=data.scene.other)
        ),
    ),
    Case(
        "plane",
        lambda data: objectives.IKObjectivePlane(data.scene.tip, target_poses(data)[:, :3], 3.0 * turned_axes(data)),
        plane_rows,
    ),
    Case(
        "plane_offset_reference",
        lambda data: objectives.IKObjectivePlane(
            data.scene.tip,
            target_poses(data, offset=True, reference=data.scene.other)[:, :3],
            turned_axes(data),
            offset=data.offset,
            reference_link=data.scene.other,
            row_weights=data.row_weights[:, :1],
        ),
        lambda data, joint_q, problem: (
            data.row_weights[problem, :1] * plane_rows(data, joint_q, problem, offset=True, reference=data.scene.other)
        ),
    ),
    *(Case(name, make, residual) for name, (make, residual) in (LOOPS | JOINTS | NEAR_POSES | MOTIONS).items()),
    Case(
        "line",
        lambda data: objectives.IKObjectiveLine(data.scene.tip, target_poses(data)[:, :3], 3.0 * turned_axes(data)),
        line_rows,
    ),
    Case(
        "line_offset_reference",
        lambda data: objectives.IKObjectiveLine(
            data.scene.tip,
            target_poses(data, offset=True, reference=data.scene.other)[:, :3],
            turned_axes(data),
            offset=data.offset,
            reference_link=data.scene.other,
            row_weights=data.row_weights[:, :2],
            weight=1.5,
        ),
        lambda data, joint_q, problem: (
            1.5
            * data.row_weights[problem, :2]
            * line_rows(data, joint_q, problem, offset=True, reference=data.scene.other)
        ),
    ),
    Case(
        "center_of_mass",
        lambda data: objectives.IKObjectiveCenterOfMass(mass_targets(data)),
        lambda data, joint_q, problem: data.scene.robot.center_of_mass(joint_q) - mass_targets(data)[problem],
    ),
    Case(
        "center_of_mass_weights",
        lambda data: objectives.IKObjectiveCenterOfMass(
            mass_targets(data), row_weights=data.row_weights[:, :3], weight=3.0
        ),
        lambda data, joint_q, problem: (
            3.0
            * data.row_weights[problem, :3]
            * (data.scene.robot.center_of_mass(joint_q) - mass_targets(data)[problem])
        ),
    ),
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
            outside = 0.01 if k > 0 else -0.01
            upper = (dof + k) % 2 == 0
            limit = (robot.joint_limit_upper if upper else robot.joint_limit_lower)[dof]
            result[k, robot.dof_coordinate[dof]] = limit + (outside if upper else -outside)
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
