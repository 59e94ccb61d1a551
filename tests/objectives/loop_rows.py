"""Rows of loops by rotation matrices, from where a frame is seen in another."""

import numpy as np

import objectives
from ik_service.robots.transforms import quaternion_rotate, transform_inverse, transform_multiply

LOOP_OFFSETS = (
    np.array([0.1, -0.05, 0.2, 0.0, np.sin(0.3), 0.0, np.cos(0.3)]),
    np.array([-0.1, 0.3, 0.1, np.sin(0.7), 0.0, 0.0, np.cos(0.7)]),
)
LOOP_SIZES = {"helical": {"pitch": -0.04}, "distance": {"distance": 0.35}}


def matrix_of(xyzw):
    """Rotation matrices of quaternions [n, 4]."""
    return np.stack([quaternion_rotate(xyzw, np.broadcast_to(axis, (len(xyzw), 3))) for axis in np.eye(3)], axis=-1)


def tilt(turn):
    z = turn[:, :, 2]
    return z[:, :2] / np.sqrt(0.5 * (1.0 + z[:, 2:]))


def short_turn(xyzw):
    return 2.0 * np.sign(xyzw[:, 3:]) * xyzw[:, :3]


def screw(p, turn):
    pitch = LOOP_SIZES["helical"]["pitch"]
    rest = p[:, 2] / pitch - np.arctan2(turn[:, 1, 0] - turn[:, 0, 1], turn[:, 0, 0] + turn[:, 1, 1])
    return (pitch * np.angle(np.exp(1j * rest)))[:, None]


def apart(p):
    distance = LOOP_SIZES["distance"]["distance"]
    return (0.5 * ((p**2).sum(axis=1) / distance - distance))[:, None]


LOOP_ROWS = {
    "weld": lambda p, turn, xyzw: (p, short_turn(xyzw)),
    "revolute": lambda p, turn, _: (p, tilt(turn)),
    "prismatic": lambda p, turn, xyzw: (p[:, :2], short_turn(xyzw)),
    "helical": lambda p, turn, _: (p[:, :2], tilt(turn), screw(p, turn)),
    "cylindrical": lambda p, turn, _: (p[:, :2], tilt(turn)),
    "universal": lambda p, turn, _: (p, turn[:, 2:, 0]),
    "spherical": lambda p, turn, _: (p,),
    "planar": lambda p, turn, _: (p[:, 2:], tilt(turn)),
    "point_on_line": lambda p, turn, _: (p[:, :2],),
    "point_in_plane": lambda p, turn, _: (p[:, 2:],),
    "distance": lambda p, turn, _: (apart(p),),
}
"""Rows of each joint from positions [n, 3], rotations [n, 3, 3] and quaternions [n, 4] xyzw."""


def make_loop(joint, relative):
    """How a case makes the objective of a loop from the tip to another link, or to the world."""
    return lambda data: objectives.IKObjectiveLoop(
        data.scene.tip,
        data.scene.other if relative else None,
        joint,
        offset=LOOP_OFFSETS[0],
        reference_offset=LOOP_OFFSETS[1],
        weight=0.7,
        **LOOP_SIZES.get(joint, {}),
    )


def rows_of(joint, relative):
    """Its residual."""

    def residual(data, joint_q, _problem):
        poses = data.scene.robot.forward_kinematics(joint_q, links=[data.scene.tip, data.scene.other])
        tip, other = np.concatenate([poses.positions, poses.orientations_xyzw], axis=-1).swapaxes(0, 1)
        frame, base = transform_multiply(tip, LOOP_OFFSETS[0]), np.broadcast_to(LOOP_OFFSETS[1], tip.shape)
        seen = transform_multiply(transform_inverse(transform_multiply(other, base) if relative else base), frame)
        return 0.7 * np.concatenate(LOOP_ROWS[joint](seen[:, :3], matrix_of(seen[:, 3:]), seen[:, 3:]), axis=1)

    return residual


LOOPS = {
    f"loop_{joint}_{'other' if relative else 'world'}": (make_loop(joint, relative), rows_of(joint, relative))
    for joint in LOOP_ROWS
    for relative in (True, False)
}
"""Objective and residual of the case of each name."""
