"""Filters and limits of target poses in every tick: given target -> filter -> limits -> commanded target."""

import math
import typing
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import TypeAlias

import numpy as np
import warp as wp

from ik_service.control.limits import TARGET_LIMITS, ControlLimits
from ik_service.control.tick.arrays import BEGIN, DT, LAG, POSE, RULES, TARGET_STATE, TickArrays, TickRef
from ik_service.mechanism.transforms import Float64Array, transform_inverse, transform_multiply
from ik_service.robots import RobotModel
from ik_service.solver.given.arrays import NUMBER_MAX
from ik_service.solver.given.targets import Target
from ik_service.template_files import TemplateFolder
from objectives import InputError
from objectives.data_field import UNIT_TOLERANCE


@dataclass(frozen=True)
class OneEuroFilter:
    """One-euro filter of target poses (G. Casiez et al., CHI 2012): fast motion raises its cutoff.

    The filter is of first order: each new target changes the speed at once, so a moving hand with noise leaves most of
    the joint accelerations. `SecondOrderFilter` is smoother.

    Attributes:
        min_cutoff: Cutoff frequency of a target at rest [Hz], above 0.
        beta: Rise of the cutoff frequency with speed [Hz per m/s, Hz per rad/s], 0 or more.
        derivative_cutoff: Cutoff frequency of the speed [Hz], above 0.
    """

    min_cutoff: float = 0.2
    beta: float = 15.0
    derivative_cutoff: float = 0.5


@dataclass(frozen=True)
class SecondOrderFilter:
    """Second-order low-pass filter of target poses, with a lag of 2 damping_ratio / natural_frequency [s].

    Attributes:
        natural_frequency: Undamped natural frequency [rad/s], above 0. Lower is smoother.
        damping_ratio: Above 0, at most 1: critically damped, without overshoot.
    """

    natural_frequency: float = 20.0
    damping_ratio: float = 1.0


TargetFilter: TypeAlias = OneEuroFilter | SecondOrderFilter
LEAST = 1.0 / NUMBER_MAX  # smaller numbers underflow in a tick
KINDS = (type(None), OneEuroFilter, SecondOrderFilter)


def shaping_rules(given: TargetFilter | None, limits: ControlLimits) -> tuple[float, ...]:
    """Return kind and numbers of a filter, then the limits of targets, [8]; InputError for a wrong type or number."""
    if type(given) not in KINDS:
        raise InputError(f"target_filter is {given!r}. Allowed: OneEuroFilter, SecondOrderFilter or None.")
    numbers = first, second, third = (*(() if given is None else astuple(given)), 1.0, 1.0, 1.0)[:3]
    least = 0.0 if isinstance(given, OneEuroFilter) else LEAST
    most = 1.0 if isinstance(given, SecondOrderFilter) else NUMBER_MAX
    is_allowed = all(isinstance(value, int | float | np.number) for value in numbers) and least <= second <= most
    if not (is_allowed and LEAST <= first <= NUMBER_MAX and LEAST <= third <= NUMBER_MAX):
        raise InputError(
            f"{given} has a number out of range. Allowed: {LEAST:g} to {NUMBER_MAX:g}, beta also 0, "
            "damping_ratio up to 1."
        )
    found = [math.inf if value is None else value for value in (getattr(limits, name) for name in TARGET_LIMITS)]
    if not all(isinstance(value, int | float | np.number) and value >= LEAST for value in found):
        raise InputError(
            f"ControlLimits: {', '.join(TARGET_LIMITS)} are {found}. Allowed: one number from {LEAST:g}, or None."
        )
    return float(KINDS.index(type(given))), first, second, third, *found


def start_targets(arrays: TickArrays, robot: RobotModel, targets: Sequence[Target], joint_q: Float64Array) -> None:
    """Put filtered and limited targets at rest where the links are at configurations [robots, joint_coord_count]."""
    if not arrays.shapes:
        return
    states = arrays.shaped.host.reshape(len(joint_q), -1, TARGET_STATE)
    for k, target in enumerate(targets):
        poses = robot.forward_kinematics(joint_q, links=[target.link, target.reference_link or target.link])
        tool, reference = np.moveaxis(np.concatenate([poses.positions, poses.orientations_xyzw], axis=-1), 1, 0)
        if target.offset is not None:
            tool = transform_multiply(tool, np.asarray(target.offset, np.float64))
        if target.reference_link is not None:
            tool = transform_multiply(transform_inverse(reference), tool)
        states[:, k] = np.pad(np.tile(tool, 3), ((0, 0), (0, TARGET_STATE - 3 * POSE)))


WORDS: dict[str, float] = dict(begin=int(BEGIN), dt=int(DT), rules=int(RULES), state=TARGET_STATE, lag=LAG)
WORDS |= dict(largest=NUMBER_MAX, slack=UNIT_TOLERANCE)
WORDS |= dict(one_euro=KINDS.index(OneEuroFilter), second_order=KINDS.index(SecondOrderFilter))


@wp.func_native("\n".join(["", "{", TemplateFolder("ik_service.control").filled("shape_target.cpp", WORDS), "}", ""]))
@typing.no_type_check
def shape_targets(task: TickRef, first: int, lanes: int):
    """Filter and limit the targets of `lanes` robots at the begin of a tick, before its first island."""
