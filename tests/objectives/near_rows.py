"""Rows of a pose with a deadband by rotation matrices, in each frame in which they may be asked for."""

import numpy as np

import objectives
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from tests.objectives.loop_rows import matrix_of

BOX, BALL = np.array([0.02, 0.05, 0.01, 0.1, 0.02, 0.05, 0.0]), np.array([0.0, 0.02, 0.0, 0.0, 0.0, 4.0, 0.1])


def beyond(values, width):
    return np.sign(values) * np.maximum(np.abs(values) - width, 0.0)


def link_pose(data, link, joint_q):
    poses = data.scene.robot.forward_kinematics(joint_q, links=[link])
    return np.concatenate([poses.positions[:, 0], poses.orientations_xyzw[:, 0]], axis=1)


def near_rows(pose, target, reference, frame, deadband):
    """Rows from poses [n, 7] of the frame, where it should be and of the reference, the last in the world."""
    tool, aim, base = (matrix_of(one[:, 3:]) for one in (pose, target, reference))
    axes = {"tool": tool, "target": aim, "reference": np.eye(3)[None], "world": base.swapaxes(1, 2)}[frame]
    turn = tool @ aim.swapaxes(1, 2)
    skew = np.stack([turn[:, 2, 1] - turn[:, 1, 2], turn[:, 0, 2] - turn[:, 2, 0], turn[:, 1, 0] - turn[:, 0, 1]], 1)
    # sin(a) times the axis; half of it over cos(a / 2) is sin(a / 2) times the axis
    chord = skew / np.sqrt(1.0 + np.trace(turn, axis1=1, axis2=2))[:, None]
    shift, chord = (
        np.einsum("nji,nj->ni", axes * np.ones((len(pose), 1, 1)), v) for v in (pose[:, :3] - target[:, :3], chord)
    )
    chord = beyond(chord, deadband[3:6])
    length = np.linalg.norm(chord, axis=1, keepdims=True)
    ball = np.maximum(length - deadband[6], 0.0) / np.where(length > 0.0, length, 1.0)
    return np.concatenate([beyond(shift, deadband[:3]), chord * ball], axis=1)


def near_case(frame, deadband, *, relative):
    """Objective and residual of a case; targets lie by the test's turn and shift before the configurations."""

    def given(data):
        if data.regime == "random":  # few rows are in the deadband, so that all that a row depends on is seen
            return np.where(deadband < 4.0, 0.05 * deadband, 0.0)
        if data.regime != "near_identity":
            return deadband
        less = np.where(deadband < 4.0, 2e-3 * deadband, deadband)  # so that not all rows are in the deadband
        less[6] = 0.0  # in float32 the direction of so small a rotation is not known well enough
        return less

    def seen(data, joint_q, problem):
        pose = transform_multiply(link_pose(data, data.scene.tip, joint_q), data.offset[problem])
        reference = link_pose(data, data.scene.other, joint_q)
        return transform_multiply(transform_inverse(reference), pose) if relative else pose, reference

    def targets(data):
        pose = seen(data, data.joint_q, np.arange(len(data.joint_q)))[0]
        back = np.concatenate([-data.shift, data.turn_xyzw * [-1.0, -1.0, -1.0, 1.0]], axis=1)
        return np.concatenate([pose[:, :3] + back[:, :3], transform_multiply(back, pose)[:, 3:]], axis=1)

    def make(data):
        options = {"frame": frame, "deadband": given(data), "offset": data.offset}
        options |= {"reference_link": data.scene.other} if relative else {}
        poses = targets(data)
        return objectives.IKObjectiveNearPose(
            data.scene.tip, poses[:, :3], poses[:, 3:], row_weights=data.row_weights[:, :6], weight=0.7, **options
        )

    def residual(data, joint_q, problem):
        pose, reference = seen(data, joint_q, problem)
        rows = near_rows(pose, targets(data)[problem], reference, frame, given(data))
        return 0.7 * data.row_weights[problem, :6] * rows

    return make, residual


NEAR_POSES = {
    "near_pose_tool": near_case("tool", BALL, relative=False),
    "near_pose_target_reference": near_case("target", BOX, relative=True),
    "near_pose_world_reference": near_case("world", BOX, relative=True),
    "near_pose_reference": near_case("reference", BALL, relative=False),
}
"""Objective and residual of each case."""
