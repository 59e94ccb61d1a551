"""Equalities of a compiled MJCF model: mimic couplings of joints, and loop closures of bodies.

Equalities are read from MuJoCo's own data: anchors and poses in ``eq_data``, coordinates from ``qpos0``. Equalities
that are off at the start are ignored. Linear equations between joints become couplings: each joint is a mimic joint of
one leader, held, or a leader. An equation with more joints, or in contradiction to earlier ones, is refused alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.polynomial import Polynomial

from ik_service.mechanism.coordinates import CoordinateConstraint
from ik_service.mechanism.coupling import LIMIT_SLACK, leader_interval
from ik_service.mechanism.loops import IDENTITY, LoopConstraint, Transform
from ik_service.mechanism.transforms import MAX_NUMBER, Float64Array
from ik_service.robots.readers.description import free_name
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


_UPRIGHT = IDENTITY[3:]
_Read = TypeVar("_Read")


class MjcfEqualities:
    """Equalities of a model: couplings by MuJoCo's joint ids, and a warning per equality left out."""

    def __init__(self, mujoco: Any, model: Any) -> None:
        self._model, self._kinds, self._objects = model, mujoco.mjtEq, mujoco.mjtObj
        self._joint_wrap = int(mujoco.mjtWrap.mjWRAP_JOINT)
        limits = np.where(model.jnt_limited[:, None], model.jnt_range, [-np.inf, np.inf])
        self.couplings = JointCouplings(limits)
        self.warnings: list[str] = []
        self._closing: list[int] = []
        self._polynomials: list[int] = []
        self._read_each(np.flatnonzero(model.eq_active0).tolist(), self._read)

    def _name(self, equality: int) -> str:
        """Give the name of an equality, or a unique name if unnamed."""
        names = [self._model.equality(k).name for k in range(self._model.neq)]
        return names[equality] or free_name(f"equality_{equality}", names)

    def _read(self, equality: int) -> None:
        kinds = self._kinds
        kind = kinds(int(self._model.eq_type[equality]))  # the enum does not compare equal to a NumPy integer
        if kind == kinds.mjEQ_JOINT and self._is_polynomial(equality):
            self._polynomials.append(equality)
        elif kind == kinds.mjEQ_JOINT:
            self._couple(equality, lambda joint: {joint: 1.0})
        elif kind == kinds.mjEQ_TENDON:
            self._couple(equality, self._tendon_terms)
        elif kind in (kinds.mjEQ_CONNECT, kinds.mjEQ_WELD):
            self._closing.append(equality)
        else:
            raise InputError("constraints of this kind are not read.")

    def _is_polynomial(self, equality: int) -> bool:
        return bool(self._model.eq_obj2id[equality] >= 0 and self._model.eq_data[equality][2:5].any())

    def _couple(self, equality: int, terms_of: Callable[[int], Mapping[int, float]]) -> None:
        """Add an equation: displacement = c0 + c1 * displacement of the second + ..., of joints or of tendons."""
        model = self._model
        first, second = int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])
        coefficients = model.eq_data[equality][:5]
        terms = dict(terms_of(first))
        if second >= 0:
            if self._is_polynomial(equality):
                raise InputError(f"only linear couplings are read, got polycoef {coefficients}.")
            for joint, coefficient in terms_of(second).items():
                terms[joint] = terms.get(joint, 0.0) - float(coefficients[1]) * coefficient
        constant = float(coefficients[0])
        for joint, coefficient in terms.items():
            constant += coefficient * float(model.qpos0[model.jnt_qposadr[joint]])
        self.couplings = self.couplings.with_equation([*terms.items()], constant)

    def _tendon_terms(self, tendon: int) -> Mapping[int, float]:
        """Give the coefficients of the joints of a tendon, the joint farthest from the base first."""
        model = self._model
        first = int(model.tendon_adr[tendon])
        wraps = range(first, first + int(model.tendon_num[tendon]))
        if any(model.wrap_type[wrap] != self._joint_wrap for wrap in wraps):
            raise InputError(f"tendon '{model.tendon(tendon).name}' is not a sum of joints.")
        terms: dict[int, float] = {}
        for wrap in sorted(wraps, key=lambda wrap: -int(model.wrap_objid[wrap])):
            joint = int(model.wrap_objid[wrap])
            terms[joint] = terms.get(joint, 0.0) + float(model.wrap_prm[wrap])
        return terms

    def coordinates(self, joint_names: Sequence[str]) -> tuple[CoordinateConstraint, ...]:
        """Give the polynomial couplings of joints, named by MuJoCo's ids; warn of invalid ones."""
        return self._read_each(self._polynomials, lambda equality: self._polynomial(equality, joint_names))

    def _polynomial(self, equality: int, joint_names: Sequence[str]) -> CoordinateConstraint:
        model = self._model
        joints = [int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])]
        start, other = (float(model.qpos0[model.jnt_qposadr[joint]]) for joint in joints)
        displacement = Polynomial(model.eq_data[equality][:5])
        coefficients = (start + displacement(Polynomial([-other, 1.0]))).coef
        joint, reference_joint = (joint_names[joint] for joint in joints)
        return CoordinateConstraint(self._name(equality), joint, reference_joint, tuple(coefficients))

    def _read_each(self, equalities: Sequence[int], read: Callable[[int], _Read]) -> tuple[_Read, ...]:
        found = []
        for equality in equalities:
            try:
                found.append(read(equality))
            except InputError as error:
                kind = self._kinds(int(self._model.eq_type[equality])).name.removeprefix("mjEQ_").lower()
                self.warnings.append(f"Equality '{self._name(equality)}' ({kind}) is left out: {error}")
        return tuple(found)

    def loops(self, body_links: Sequence[str], site_links: Sequence[str]) -> tuple[LoopConstraint, ...]:
        """Give the loop closures, links of bodies and sites by MuJoCo's ids; warn of invalid ones."""
        return self._read_each(self._closing, lambda equality: self._loop(equality, body_links, site_links))

    def _loop(self, equality: int, body_links: Sequence[str], site_links: Sequence[str]) -> LoopConstraint:
        model, data = self._model, self._model.eq_data[equality]
        ends = [int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])]
        of_sites = int(model.eq_objtype[equality]) == int(self._objects.mjOBJ_SITE)
        bodies = [int(model.site_bodyid[site]) for site in ends] if of_sites else ends
        links = [(site_links if of_sites else body_links)[end] for end in ends]
        handle = next((body_links[body] for body in bodies if model.body_mocapid[body] >= 0), None)
        if handle is not None:
            raise InputError(f"body '{handle}' stands wherever the simulator puts it.")
        is_weld = int(model.eq_type[equality]) == int(self._kinds.mjEQ_WELD)
        joint = "weld" if is_weld and data[10] else "spherical"  # a torque scale of 0 leaves the rotation free
        offset, reference_offset = (IDENTITY, IDENTITY) if of_sites else _offsets(data, is_weld)
        return LoopConstraint(self._name(equality), joint, links[0], links[1], offset, reference_offset)


def _offsets(data: Float64Array, is_weld: bool) -> tuple[Transform, Transform]:
    if not is_weld:
        return (*data[:3], *_UPRIGHT), (*data[3:6], *_UPRIGHT)
    turn = np.roll(data[6:10], -1) / np.linalg.norm(data[6:10])
    return (*data[3:6], *turn), (*data[:3], *_UPRIGHT)  # the first body carries the pose of the second
