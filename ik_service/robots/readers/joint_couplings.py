"""Linear equations between joints, turned into couplings: each joint is a mimic joint of one leader, held, or a leader.

An equation with more joints, or in contradiction to earlier equations or limits, is refused alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ik_service.mechanism.coupling import LIMIT_SLACK, leader_interval
from ik_service.mechanism.transforms import MAX_NUMBER, Float64Array
from objectives.errors import InputError

SAME = 1e-9  # relative tolerance: coefficients and values closer than this count as equal


@dataclass(frozen=True)
class Following:
    """Mimic joint: coordinate = multiplier * coordinate of the leader + offset."""

    leader: int
    multiplier: float
    offset: float


@dataclass(frozen=True, eq=False)
class JointCouplings:
    """Couplings of joints, by their indices; a leader has no leader."""

    limits: Float64Array  # lower and upper limit of each joint, infinite if unlimited, shape [joints, 2]
    following: Mapping[int, Following] = field(default_factory=dict)  # couplings of the mimic joints
    held: Mapping[int, float] = field(default_factory=dict)  # constant values of held leaders

    def with_equation(self, terms: Sequence[tuple[int, float]], constant: float) -> "JointCouplings":
        """Give the couplings with one more equation: sum of coefficient * coordinate = constant.

        The first joint whose leader is free becomes the mimic joint. InputError if the equation couples more than two
        free joints, contradicts earlier equations or the limits, or needs a number out of proportion.
        """
        coefficients: dict[int, float] = {}
        size = abs(constant)
        for joint, coefficient in terms:
            own = self.following.get(joint, Following(joint, 1.0, 0.0))
            before = coefficients.get(own.leader, 0.0)
            after = before + coefficient * own.multiplier
            is_gone = before != 0.0 and abs(after) <= SAME * abs(before)
            coefficients[own.leader] = 0.0 if is_gone else after
            constant -= coefficient * own.offset
            size = max(size, abs(coefficient * own.offset))
        free = [joint for joint, coefficient in coefficients.items() if coefficient and joint not in self.held]
        if not free:
            rest = constant - sum(coefficients[joint] * self.held.get(joint, 0.0) for joint in coefficients)
            if abs(rest) > SAME * max(size, 1.0):
                raise InputError("it contradicts those before it.")
            return self
        return self._with_leaders(free[0], coefficients, constant)._checked()

    def _with_leaders(self, first: int, coefficients: Mapping[int, float], constant: float) -> "JointCouplings":
        others = {joint: coefficient for joint, coefficient in coefficients.items() if joint != first}
        if len(others) > 1:
            constant -= sum(coefficient * self.held.get(joint, 0.0) for joint, coefficient in others.items())
            others = {joint: value for joint, value in others.items() if value and joint not in self.held}
        if len(others) > 1:
            raise InputError(f"it couples {len(others) + 1} joints; couplings of two are read.")
        scale = coefficients[first]
        if not others:
            return replace(self, held={**self.held, first: constant / scale})
        ((leader, coefficient),) = others.items()
        own = Following(leader, -coefficient / scale, constant / scale)
        behind = {
            joint: Following(leader, old.multiplier * own.multiplier, old.multiplier * own.offset + old.offset)
            for joint, old in self.following.items()
            if old.leader == first
        }
        return replace(self, following={**self.following, first: own, **behind})

    def _checked(self) -> "JointCouplings":
        """Clip held values into the limits; InputError if the limits leave no value."""
        lower, upper = self.limits.T.copy()
        for joint, own in self.following.items():
            size = abs(own.multiplier)
            if not (size == 0.0 or 1.0 / MAX_NUMBER <= size <= MAX_NUMBER) or not abs(own.offset) <= MAX_NUMBER:
                raise InputError(f"multiplier {own.multiplier:g} or offset {own.offset:g} is out of proportion.")
            low, high = leader_interval(own.multiplier, own.offset, *self.limits[joint])
            lower[own.leader], upper[own.leader] = max(lower[own.leader], low), min(upper[own.leader], high)
        if (lower > upper + LIMIT_SLACK).any():
            raise InputError("the limits of the joints leave it no value.")
        held = {joint: _within(value, lower[joint], upper[joint]) for joint, value in self.held.items()}
        return replace(self, held=held)


def _within(value: float, lower: float, upper: float) -> float:
    """Clip a held value that violates limits by rounding only; InputError if the violation is larger."""
    lower, upper = max(lower, -MAX_NUMBER), min(upper, MAX_NUMBER)
    if lower > upper:  # by less than LIMIT_SLACK
        lower = upper = 0.5 * (lower + upper)
    if not lower - LIMIT_SLACK <= value <= upper + LIMIT_SLACK:
        raise InputError(f"value {value:g} is outside the limits [{lower:g}, {upper:g}].")
    return float(np.clip(value, lower, upper))
