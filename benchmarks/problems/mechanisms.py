"""Closed forms of the built-in mechanisms, in float64, from their dimensions alone: what robots and solver are held to.

It imports NumPy only, so that programs in other environments may use it. Lines of arrays are problems.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CRANK, COUPLER, ROCKER, PIVOT = 0.2, 0.5, 0.4, np.array([0.5, 0.0])
COUPLER_POINT = np.array([0.25, 0.15])
SHOULDER, UPPER, LOWER = np.array([[0.0, 0.1], [0.0, -0.1]]), 0.25, 0.35
HIPS, ARM, ROD, ANCHORS = 0.2, 0.25, 0.5, 0.05
FEET, BALLS, HOME = 0.5, 0.3, np.array([0.0, 0.0, 0.6])
LENGTHS, LEAN = (0.5, 0.9), 1.0  # of legs [m], and how far their universal joints turn [rad]


def along(angle: Floats, length: float = 1.0) -> Floats:
    """Return vectors in the plane, [..., 2]."""
    return length * np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def apex(first: Floats, second: Floats, first_length: float, second_length: float, side: float) -> Floats:
    """Return the points with these distances from two others in the plane, [n, 2]; NaN where there is none.

    Side 1 gives the point on the left of the way from the first to the second, -1 the other.
    """
    way = second - first
    distance = np.linalg.norm(way, axis=1, keepdims=True)
    foot = (first_length**2 - second_length**2 + distance**2) / (2.0 * distance)
    with np.errstate(invalid="ignore"):
        height = np.sqrt(first_length**2 - foot**2)
    left = np.stack([-way[:, 1], way[:, 0]], axis=1)
    return first + (foot * way + side * height * left) / distance


def four_bar(crank: Floats, side: float) -> tuple[Floats, Floats]:
    """Return the rocker's angle [n] and the coupler point [n, 2] of a mode, from the crank's angle [n]."""
    pin = along(crank, CRANK)
    joint = apex(pin, np.broadcast_to(PIVOT, pin.shape), COUPLER, ROCKER, side)
    x = (joint - pin) / COUPLER
    y = np.stack([-x[:, 1], x[:, 0]], axis=1)
    rocker = joint - PIVOT
    return np.arctan2(rocker[:, 1], rocker[:, 0]), pin + COUPLER_POINT[0] * x + COUPLER_POINT[1] * y


def five_bar(shoulders: Floats, side: float) -> Floats:
    """Return the tool [n, 2] of a mode, from the angles of the left and right shoulder [n, 2]."""
    left, right = (along(shoulders[:, k], UPPER) + SHOULDER[k] for k in range(2))
    return apex(left, right, LOWER, LOWER, side)


def delta_rods(arms: Floats) -> Floats:
    """Return where the platform would be if each rod hung alone: centres of spheres, [n, 3, 3], from arms [n, 3]."""
    turn = 2.0 * np.pi * np.arange(3) / 3.0
    radius, height = HIPS - ANCHORS + ARM * np.cos(arms), -ARM * np.sin(arms)
    return np.concatenate([radius[..., None] * along(turn), height[..., None]], axis=2)


def delta(arms: Floats) -> Floats:
    """Return the platform [n, 3] below three arms [n, 3]: where three spheres meet; NaN where they do not."""
    centres = delta_rods(arms)
    one, two = centres[:, 1] - centres[:, 0], centres[:, 2] - centres[:, 0]
    normal = np.cross(one, two)
    size2 = (normal * normal).sum(axis=1, keepdims=True)
    one2, two2 = ((way * way).sum(axis=1, keepdims=True) for way in (one, two))
    middle = (one2 * np.cross(two, normal) + two2 * np.cross(normal, one)) / (2.0 * size2)
    with np.errstate(invalid="ignore"):
        depth = np.sqrt((ROD**2 - (middle * middle).sum(axis=1, keepdims=True)) / size2)
    return centres[:, 0] + middle - depth * normal * np.sign(normal[:, 2:])


def matrix(orientation_xyzw: Floats) -> Floats:
    """Return rotation matrices [n, 3, 3]."""
    x, y, z, w = orientation_xyzw.T
    rows = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


def _ring(radius: float, half_degrees: float) -> Floats:
    turn = np.radians([120.0 * pair + side * half_degrees for pair in range(3) for side in (-1.0, 1.0)])
    return np.column_stack([along(turn, radius), np.zeros(6)])


_FEET, _BALLS = _ring(FEET, 50.0), _ring(BALLS, 10.0)


def _legs(position: Floats, orientation_xyzw: Floats) -> Floats:
    """Legs as vectors from foot to ball, [n, 6, 3], of the platform's pose in the world."""
    return position[:, None] + np.einsum("nij,kj->nki", matrix(orientation_xyzw), _BALLS) - _FEET


def _mounts() -> Floats:
    """Axes of the feet in the world, as columns, [6, 3, 3]: z to where the ball is at home, x downwards with it."""
    z = _legs(HOME[None], np.array([[0.0, 0.0, 0.0, 1.0]]))[0]
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    y = np.cross([0.0, 0.0, 1.0], z)
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    return np.stack([np.cross(y, z), y, z], axis=2)


def stewart(position: Floats, orientation_xyzw: Floats) -> tuple[Floats, Floats, Floats]:
    """Return lengths, swings and tilts of the legs, [n, 6] each, from the platform's pose in the world."""
    legs = _legs(position, orientation_xyzw)
    lengths = np.linalg.norm(legs, axis=2)
    x, y, z = np.moveaxis(np.einsum("kji,nkj->nki", _mounts(), legs) / lengths[..., None], 2, 0)
    return lengths, np.arctan2(-y, z), np.arcsin(x)


def rotated(orientation_xyzw: Floats, turn: Floats) -> Floats:
    """Return orientations after a turn by rotation vectors in the world [n, 3]."""
    angle = np.linalg.norm(turn, axis=1, keepdims=True)
    v, w = 0.5 * turn * np.sinc(angle / (2.0 * np.pi)), np.cos(0.5 * angle)
    u, s = orientation_xyzw[:, :3], orientation_xyzw[:, 3:]
    return np.concatenate([w * u + s * v + np.cross(v, u), w * s - (v * u).sum(axis=1, keepdims=True)], axis=1)


def stewart_platform(lengths: Floats, steps: int = 20) -> tuple[Floats, Floats]:
    """Return position [n, 3] and orientation xyzw [n, 4] of the platform by lengths of legs [n, 6].

    Newton's method starts at home; judge the poses by `stewart`.
    """
    position, orientation = (np.tile(start, (len(lengths), 1)) for start in (HOME, [0.0, 0.0, 0.0, 1.0]))
    for _ in range(steps):
        legs = _legs(position, orientation)
        own = np.linalg.norm(legs, axis=2)
        unit, arms = legs / own[..., None], legs + _FEET - position[:, None]
        jacobian = np.concatenate([unit, np.cross(arms, unit)], axis=2)
        step = np.linalg.solve(jacobian, (lengths - own)[..., None])[..., 0]
        position = position + step[:, :3]
        orientation = rotated(orientation, step[:, 3:])
        orientation /= np.linalg.norm(orientation, axis=1, keepdims=True)
    return position, orientation


def _four_bars(count: int, rng: np.random.Generator) -> Floats:
    crank, side = rng.uniform(-np.pi, np.pi, count), rng.choice([-1.0, 1.0], count)
    rocker = np.where(side > 0.0, four_bar(crank, 1.0)[0], four_bar(crank, -1.0)[0])
    coupler = along(rocker, ROCKER) + PIVOT - along(crank, CRANK)
    turn = np.arctan2(coupler[:, 1], coupler[:, 0]) - crank
    return np.column_stack([crank, turn, rocker])


def _five_bars(count: int, rng: np.random.Generator) -> Floats:
    angles, side = rng.uniform([-0.5, -2.6], [2.6, 0.5], (count, 2)), rng.choice([-1.0, 1.0], count)
    tool = np.where(side[:, None] > 0.0, five_bar(angles, 1.0), five_bar(angles, -1.0))
    columns = []
    for k in range(2):
        forearm = tool - along(angles[:, k], UPPER) - SHOULDER[k]
        elbow = np.arctan2(forearm[:, 1], forearm[:, 0]) - angles[:, k]
        columns += [angles[:, k], np.arctan2(np.sin(elbow), np.cos(elbow))]
    joint_q = np.column_stack(columns)
    bent = (joint_q[:, [1, 3]] * [-1.0, 1.0] >= 0.1) & (joint_q[:, [1, 3]] * [-1.0, 1.0] <= 2.8)
    return joint_q[bent.all(axis=1)]


def _deltas(count: int, rng: np.random.Generator) -> Floats:
    arms = rng.uniform(-1.0, 1.5, (count, 3))
    joint_q = np.concatenate([arms, delta(arms)], axis=1)
    ends = np.array([[-0.6, -0.6, -0.9], [0.6, 0.6, -0.15]])
    return joint_q[((joint_q[:, 3:] >= ends[0]) & (joint_q[:, 3:] <= ends[1])).all(axis=1)]


def _stewarts(count: int, rng: np.random.Generator) -> Floats:
    place, turn = rng.uniform(-0.2, 0.2, (count, 3)), rng.uniform(-0.4, 0.4, (count, 3))
    orientation = rotated(np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)), turn)
    lengths, swings, tilts = stewart(place + HOME, orientation)
    legs = np.stack([swings, tilts, lengths], axis=2).reshape(count, 18)
    fits = ((lengths >= LENGTHS[0]) & (lengths <= LENGTHS[1])).all(axis=1)
    fits &= (np.abs(np.concatenate([swings, tilts], axis=1)) <= LEAN).all(axis=1)
    return np.concatenate([place, orientation, legs], axis=1)[fits]


@dataclass(frozen=True)
class Mechanism:
    """A built-in robot that closes loops."""

    name: str
    link: str  # its end effector
    axes: tuple[float, ...]  # weights of the rows of a target that its loops leave free
    drives: tuple[str, ...]  # joints that have motors: the others follow from them
    # draws at most so many configurations, with loops closed and within limits, in the order of its coordinates
    draw: Callable[[int, np.random.Generator], Floats]

    def configurations(self, count: int, rng: np.random.Generator) -> Floats:
        """Return so many random configurations in which its loops are closed and limits kept."""
        found = np.concatenate([self.draw(2 * count, rng) for _ in range(4)])
        return found[:count]


PLANE, SPACE, POSE = (1.0, 1.0, 0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 0.0, 0.0, 0.0), (1.0,) * 6
MECHANISMS = (
    Mechanism("four_bar", "coupler_point", PLANE, ("crank_joint",), _four_bars),
    Mechanism("five_bar", "tool", PLANE, ("left_shoulder", "right_shoulder"), _five_bars),
    Mechanism("delta", "platform", SPACE, tuple(f"arm{k}_joint" for k in (1, 2, 3)), _deltas),
    Mechanism("stewart", "platform", POSE, tuple(f"leg{k}_length" for k in range(1, 7)), _stewarts),
)


def outside(reached: Floats, count: int, distance: float, rng: np.random.Generator) -> Floats:
    """Return points with this distance to the nearest of many that are reached [m, 3], shape [count, 3].

    Positions of a plane lead to points of the plane.
    """
    lower, upper = reached.min(axis=0), reached.max(axis=0)
    around = np.where(upper > lower, 2.0 * distance, 0.0)
    found: list[Floats] = []
    while len(found) < count:
        point = rng.uniform(lower - around, upper + around)
        way = reached - point
        k = np.linalg.norm(way, axis=1).argmin()
        gap = np.linalg.norm(way[k])
        if gap > distance:
            found.append(reached[k] - distance * way[k] / gap)
    return np.array(found)
