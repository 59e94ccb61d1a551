"""Motions of a humanoid as targets of links, by formula: walking, turning and sitting down, with noise.

Feet stand still while planted; hands are out of reach now and then, as recorded motions of people are.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import quaternion_multiply, quaternion_rotate

Float64Array = NDArray[np.float64]

LINKS = ("pelvis", "torso", "left_foot", "right_foot", "left_hand", "right_hand", "head")
FEET = ("left_foot", "right_foot")
DT = 1.0 / 30.0  # time between frames [s]
STEP_S, SWING = 0.5, 0.4  # time of a step [s], and its part in which the foot is in the air
STANDING, SITTING = 0.82, 0.55  # heights of the pelvis above the feet [m]
STANCE, LIFT = 0.09, 0.08  # of the feet: half their distance, and their largest height [m]
NOISE = 0.005  # standard deviation of positions [m]
WEIGHTS = {"pelvis": (1.0, 0.3), "torso": (0.3, 0.3), "left_foot": (2.0, 0.5), "right_foot": (2.0, 0.5)}
OTHER_WEIGHTS = (1.0, 0.05)  # of positions [1/m] and of rotations [1/rad]


@dataclass(frozen=True)
class Motion:
    """Targets of a motion, with a line for each frame."""

    positions: Float64Array  # [frames, targets, 3]
    orientations_xyzw: Float64Array  # [frames, targets, 4]
    planted: dict[str, NDArray[np.bool_]]  # whether a foot stands, by link

    @property
    def row_weights(self) -> Float64Array:
        """Weights of all targets, [targets, 6]."""
        pairs = [WEIGHTS.get(link, OTHER_WEIGHTS) for link in LINKS]
        return np.array([[position] * 3 + [rotation] * 3 for position, rotation in pairs])


def motion(kind: str, frames: int = 1800, seed: int = 0) -> Motion:
    """Return a motion: "walk" straight on, "turn" in a circle, or "sit" down and stand up again."""
    time, rng = np.arange(frames) * DT, np.random.default_rng(seed)
    speed = {"walk": 0.7, "turn": 0.4, "sit": 0.0}[kind]
    rate = {"walk": 0.0, "turn": 0.5, "sit": 0.0}[kind]
    yaw = rate * time
    heading = np.stack([np.cos(yaw), np.sin(yaw)], axis=1)
    middle = np.cumsum(speed * DT * heading, axis=0)
    down = 0.5 - 0.5 * np.cos(np.pi * time / 2.0) if kind == "sit" else 0.05 * np.cos(2.0 * np.pi * time / STEP_S)
    height = STANDING - (STANDING - SITTING) * np.clip(down, 0.0, 1.0) - 0.02
    pelvis = np.column_stack([middle, height])
    pelvis[:, :2] -= 0.12 * (STANDING - height)[:, None] * heading
    turn = _about_z(yaw)
    feet, planted = {}, {}
    for foot, side, phase in (("left_foot", 1.0, 0.0), ("right_foot", -1.0, 1.0)):
        feet[foot], planted[foot] = _foot(time, middle, yaw, side, phase, moves=kind != "sit")
    swing = 0.35 * np.sin(np.pi * time / STEP_S)
    hands = {}
    for hand, side in (("left_hand", 1.0), ("right_hand", -1.0)):
        raised = 0.25 + 0.35 * np.sin(0.7 * time + side) ** 2
        offset = np.column_stack([0.15 + side * 0.5 * swing, np.full(frames, side * 0.28), raised - 0.1])
        hands[hand] = pelvis + quaternion_rotate(turn, offset)
    lean = quaternion_multiply(turn, _about(1, 0.15 * np.sin(0.9 * time) + 0.3 * np.clip(down, 0.0, 1.0)))
    places = {
        "pelvis": (pelvis, turn),
        "torso": (pelvis + quaternion_rotate(turn, np.tile([0.0, 0.0, 0.14], (frames, 1))), lean),
        **{foot: (place, turned) for foot, (place, turned) in feet.items()},
        **{hand: (place, quaternion_multiply(lean, _about(1, -0.5 + swing))) for hand, place in hands.items()},
        "head": (pelvis + quaternion_rotate(lean, np.tile([0.0, 0.0, 0.6], (frames, 1))), lean),
    }
    positions = np.stack([places[link][0] for link in LINKS], axis=1)
    orientations = np.stack([places[link][1] for link in LINKS], axis=1)
    return Motion(positions + rng.normal(0.0, NOISE, positions.shape), orientations, planted)


def _foot(
    time: Float64Array, middle: Float64Array, yaw: Float64Array, side: float, phase: float, *, moves: bool
) -> tuple[tuple[Float64Array, Float64Array], NDArray[np.bool_]]:
    """Return the poses of a foot that steps in turn with the other, and whether the foot stands."""
    cycle = time / (2.0 * STEP_S) + 0.5 * phase
    number, part = np.floor(cycle), cycle - np.floor(cycle)
    in_air = (part > 1.0 - SWING) & moves
    beside = middle + side * STANCE * np.stack([-np.sin(yaw), np.cos(yaw)], axis=1)

    def at(step: Float64Array) -> tuple[Float64Array, Float64Array]:
        moment = np.clip((step - 0.5 * phase + 0.3) * 2.0 * STEP_S, time[0], time[-1]) if moves else 0.0 * step
        return np.stack([np.interp(moment, time, beside[:, k]) for k in range(2)], axis=1), np.interp(moment, time, yaw)

    (start, start_yaw), (end, end_yaw) = at(number), at(number + 1.0)
    done = np.where(in_air, (part - 1.0 + SWING) / SWING, 0.0)
    smooth = done * done * (3.0 - 2.0 * done)
    flat = start + smooth[:, None] * (end - start)
    place = np.column_stack([flat, LIFT * np.sin(np.pi * done)])
    return (place, _about_z(start_yaw + smooth * (end_yaw - start_yaw))), ~in_air


def _about_z(angle: Float64Array) -> Float64Array:
    return _about(2, angle)


def _about(axis: int, angle: Float64Array) -> Float64Array:
    """Return rotations about an axis, xyzw."""
    found = np.zeros((len(angle), 4))
    found[:, axis], found[:, 3] = np.sin(angle / 2), np.cos(angle / 2)
    return found
