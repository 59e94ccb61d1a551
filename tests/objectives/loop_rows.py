"""Rows of loops by rotation matrices, from where a frame is seen in another."""

import numpy as np

import objectives
from ik_service.mechanism.transforms import quaternion_rotate, transform_inverse, transform_multiply

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


LOOP_LIMITS = {
    "revolute": (-0.3, 0.4),
    "prismatic": (0.05, np.inf),
    "helical": (-0.5, 0.2),
    "cylindrical": ((-0.1, 0.05), (2.5, 3.8)),
    "universal": ((-np.inf, np.inf), (-7.0, -5.8)),
    "planar": ((-0.1, 0.1), (-np.inf, 0.2), (0.1, 0.1)),
}
"""Limits of each joint that may have some."""


def angle(turn):
    return np.arctan2(turn[:, 1, 0] - turn[:, 0, 1], turn[:, 0, 0] + turn[:, 1, 1])


ANGLES = {"prismatic": (False,), "helical": (False,), "revolute": (True,), "cylindrical": (False, True)}
ANGLES |= {"universal": (True, True), "planar": (False, False, True)}
LOOP_COORDINATES = {
    "revolute": lambda p, turn: [angle(turn)],
    "prismatic": lambda p, turn: [p[:, 2]],
    "helical": lambda p, turn: [p[:, 2] / LOOP_SIZES["helical"]["pitch"]],
    "cylindrical": lambda p, turn: [p[:, 2], angle(turn)],
    "universal": lambda p, turn: [np.arctan2(turn[:, k + 1, k], turn[:, 2 * k, 2 * k]) for k in (0, 1)],
    "planar": lambda p, turn: [p[:, 0], p[:, 1], angle(turn)],
}
"""Coordinates of these joints from positions and rotations."""


def beyond(joint, p, turn):
    """How far the coordinates of a joint that have limits are beyond them, [n, limited coordinates]."""
    pairs = np.array(LOOP_LIMITS[joint]).reshape(-1, 2)
    rows = []
    coordinates = LOOP_COORDINATES[joint](p, turn)
    for coordinate, (lower, upper), is_angle in zip(coordinates, pairs, ANGLES[joint], strict=True):
        if np.isfinite([lower, upper]).any():
            turns = np.round((coordinate - 0.5 * (lower + upper)) / (2.0 * np.pi)) if is_angle else 0.0
            near = coordinate - 2.0 * np.pi * turns  # an angle in the turn about the middle of its limits
            rows.append(near - np.clip(near, lower, upper))
    return np.stack(rows, axis=1)


def make_loop(joint, relative, **further):
    """How a case makes the objective of a loop from the tip to another link, or to the world."""
    return lambda data: objectives.IKObjectiveLoop(
        data.scene.tip,
        data.scene.other if relative else None,
        joint,
        offset=LOOP_OFFSETS[0],
        reference_offset=LOOP_OFFSETS[1],
        weight=0.7,
        **LOOP_SIZES.get(joint, {}),
        **further,
    )


def rows_of(joint, relative, limited=False):
    """Its residual."""

    def residual(data, joint_q, _problem):
        poses = data.scene.robot.forward_kinematics(joint_q, links=[data.scene.tip, data.scene.other])
        tip, other = np.concatenate([poses.positions, poses.orientations_xyzw], axis=-1).swapaxes(0, 1)
        frame, base = transform_multiply(tip, LOOP_OFFSETS[0]), np.broadcast_to(LOOP_OFFSETS[1], tip.shape)
        seen = transform_multiply(transform_inverse(transform_multiply(other, base) if relative else base), frame)
        position, turn = seen[:, :3], matrix_of(seen[:, 3:])
        rows = [*LOOP_ROWS[joint](position, turn, seen[:, 3:]), *([beyond(joint, position, turn)] if limited else [])]
        return 0.7 * np.concatenate(rows, axis=1)

    return residual


LOOPS = {
    f"loop_{joint}_{'other' if relative else 'world'}": (make_loop(joint, relative), rows_of(joint, relative))
    for joint in LOOP_ROWS
    for relative in (True, False)
} | {
    f"loop_{joint}_limits": (make_loop(joint, True, limits=limits), rows_of(joint, True, limited=True))
    for joint, limits in LOOP_LIMITS.items()
}
"""Objective and residual of the case of each name."""
