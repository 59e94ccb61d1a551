"""Rows of a motion by rotation matrices: what a wheel slips and shafts turn apart between two poses."""

import numpy as np

from ik_service.mechanism.transforms import quaternion_exp, transform_inverse, transform_multiply
from objectives.tasks.velocity import MovingPair, VelocityObjective
from tests.objectives.loop_rows import LOOP_OFFSETS, matrix_of
from tests.objectives.near_rows import link_pose

RADIUS = 0.15
KINDS = {"rolling": RADIUS, "no_sideslip": RADIUS, "constant_velocity": 1.0, "turn": -0.6}
UPWARDS = np.array([0.0, 0.0, 1.0])


def unit(vectors):
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)


def motion_row(kind, start, end):
    """The row of a kind from the start [n, 7] to the end of a motion, seen from the reference frame."""
    first, last = matrix_of(start[:, 3:]), matrix_of(end[:, 3:])
    axes, position = (first[:, :, 2], last[:, :, 2]), 0.5 * (start[:, :3] + end[:, :3])
    across = np.cross(*axes)
    sine = np.linalg.norm(across, axis=1, keepdims=True)
    swing = np.arctan2(sine, (axes[0] * axes[1]).sum(axis=1, keepdims=True))
    about = unit(across)
    spun = first.swapaxes(1, 2) @ matrix_of(quaternion_exp(-swing * about)) @ last  # about z, by what is left
    spin = np.arctan2(spun[:, 1, 0], spun[:, 0, 0])[:, None]
    axle = unit(axes[0] + axes[1])
    turn = swing * about + spin * axle
    if kind == "constant_velocity":
        return 0.5 * ((axle + UPWARDS) * turn).sum(axis=1)
    if kind == "turn":
        return KINDS[kind] * (axle * turn).sum(axis=1)
    way = unit(np.cross(axle, UPWARDS))
    lowest = position - RADIUS * np.cross(way, axle)
    arc = 1.0 / np.sinc(0.5 * swing / np.pi)
    slip = arc * (end[:, :3] - start[:, :3]) + np.cross(turn, lowest - position)
    along = way if kind == "rolling" else np.cross(UPWARDS, way)
    return (along * slip).sum(axis=1)


def motion_case(kind, *, relative):
    """Objective and residual of a case; motions start by the test's turn and shift before the configurations."""

    def seen(data, joint_q):
        own, base = transform_multiply(link_pose(data, data.scene.tip, joint_q), LOOP_OFFSETS[0]), LOOP_OFFSETS[1]
        if relative:
            base = transform_multiply(link_pose(data, data.scene.other, joint_q), base)
        return transform_multiply(transform_inverse(base), own)

    def starts(data):
        pose = seen(data, data.joint_q)
        back = np.concatenate([-data.shift, data.turn_xyzw * [-1.0, -1.0, -1.0, 1.0]], axis=1)
        return np.concatenate([pose[:, :3] + back[:, :3], transform_multiply(back, pose)[:, 3:]], axis=1)

    def make(data):
        ends = data.scene.tip, data.scene.other if relative else None, *map(tuple, LOOP_OFFSETS)
        parts = [MovingPair(kind, *ends, KINDS[kind])]
        return VelocityObjective(parts, start=starts(data), row_weights=data.row_weights[:, :1], weight=0.7)

    def residual(data, joint_q, problem):
        rows = motion_row(kind, starts(data)[problem], seen(data, joint_q))
        return 0.7 * data.row_weights[problem, :1] * rows[:, None]

    return make, residual


MOTIONS = {
    f"motion_{kind}_{'other' if relative else 'world'}": motion_case(kind, relative=relative)
    for kind in KINDS
    for relative in (True, False)
}
"""Objective and residual of the case of each name."""
