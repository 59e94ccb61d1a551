"""Classes of arms with a closed form, found from the axes alone.

Each class has a nominal arm, whose axes meet and are parallel or perpendicular exactly; the arm has bounds of how far
the robot is from it. A robot file rounds its numbers, and a calibrated robot has its own.

    spherical   axes 4, 5, 6 meet, 2 || 3; 1, 2 and all neighbours of the wrist perpendicular
    parallel    2 || 3 || 4, axes 4, 5 and 5, 6 meet; 1, 2 and 4, 5 and 5, 6 perpendicular
    searched    2 || 3, axes 4, 5 meet; 1, 2 perpendicular; closed where axis 6 has a given angle
    seven       axes 1, 2, 3 meet, axes 5, 6 meet, all four pairs perpendicular; closed where axis 7 has a given angle
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ik_service.compiler.closed_form.arm import Arm, Vectors, across, along, meeting

ROTATION_NOISE_MAX, LENGTH_NOISE_MAX = 0.03, 0.03  # of a nominal arm [rad, share of its length]
LEAST_LINK, LEAST_SINE = 1e-4, 1e-2  # links of an elbow, as shares of the arm; angles between searched axes 4, 5 and 6


class ArmClass(Enum):
    """Class of an arm by its axes."""

    SPHERICAL = "spherical"
    PARALLEL = "parallel"
    SEARCHED = "searched"
    SEVEN = "seven"


@dataclass(frozen=True, eq=False)
class NominalArm:
    """An arm of a class, with exact axes; the point of axes that meet is the meeting point."""

    kind: ArmClass
    arm: Arm


def nominal_arm(arm: Arm) -> NominalArm | None:
    """Return the nominal arm of the first class that an arm belongs to; None for no class."""
    for kind, make in _MAKERS[len(arm.dofs)].items():
        found = make(arm.axes, arm.points)
        if found is not None and _has_elbow(kind, *map(np.array, found)):
            nominal = arm.with_geometry(*found)
            is_near = nominal.rotation_noise <= ROTATION_NOISE_MAX
            if is_near and nominal.length_noise <= LENGTH_NOISE_MAX * nominal.length:
                return NominalArm(kind, nominal)
    return None


def _has_elbow(kind: ArmClass, h: Vectors, p: Vectors) -> bool:
    """Return whether the links on both sides of the elbow have a length, and the formulas a direction."""
    if kind is ArmClass.SEVEN:
        links = np.cross(p[[0, 4]] - p[3], h[3])
    else:
        links = np.cross((p[2] - p[1], p[3] - p[2]), h[1])
    lengths, span = np.linalg.norm(links, axis=1), float(np.linalg.norm(np.diff(p, axis=0), axis=1).sum())
    sines = np.linalg.norm(np.cross(h[[3, 4]], h[[4, 5]]), axis=1)
    return bool((lengths > LEAST_LINK * span).all()) and (
        kind is not ArmClass.SEARCHED or bool((sines > LEAST_SINE).all())
    )


Geometry = tuple[list[Vectors], list[Vectors]]


def _spherical(h: Vectors, p: Vectors) -> Geometry | None:
    wrist = meeting(h[3:], p[3:])
    if wrist is None:
        return None
    second, fifth = across(h[1], h[0]), across(h[4], h[3])
    return [h[0], second, along(h[2], second), h[3], fifth, across(h[5], fifth)], [*p[:3], wrist, wrist, wrist]


def _parallel(h: Vectors, p: Vectors) -> Geometry | None:
    wrist, elbow = meeting(h[4:], p[4:]), meeting(h[3:5], p[3:5])
    if wrist is None or elbow is None:
        return None
    second = across(h[1], h[0])
    fifth = across(h[4], second)
    fourth = wrist + fifth * (fifth @ (elbow - wrist))
    axes = [h[0], second, along(h[2], second), along(h[3], second), fifth, across(h[5], fifth)]
    return axes, [*p[:3], fourth, wrist, wrist]


def _searched(h: Vectors, p: Vectors) -> Geometry | None:
    wrist = meeting(h[3:5], p[3:5])
    second = across(h[1], h[0])
    return None if wrist is None else ([h[0], second, along(h[2], second), *h[3:]], [*p[:3], wrist, wrist, p[5]])


def _seven(h: Vectors, p: Vectors) -> Geometry | None:
    shoulder, wrist = meeting(h[:3], p[:3]), meeting(h[4:6], p[4:6])
    if shoulder is None or wrist is None:
        return None
    second = across(h[1], h[0])
    axes = [h[0], second, across(h[2], second), h[3], h[4], across(h[5], h[4]), h[6]]
    return axes, [shoulder, shoulder, shoulder, p[3], wrist, wrist, p[6]]


_MAKERS: dict[int, dict[ArmClass, Callable[[Vectors, Vectors], Geometry | None]]] = {
    6: {ArmClass.SPHERICAL: _spherical, ArmClass.PARALLEL: _parallel, ArmClass.SEARCHED: _searched},
    7: {ArmClass.SEVEN: _seven},
}
