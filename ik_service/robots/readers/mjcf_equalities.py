"""Equalities of a compiled MJCF model: mimic couplings of joints, and loop closures of bodies.

Equalities are read from MuJoCo's own data: anchors and poses in ``eq_data``, coordinates from ``qpos0``. Equalities
that are off at the start are ignored.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.polynomial import Polynomial

from ik_service.mechanism.coordinates import CoordinateConstraint
from ik_service.mechanism.loops import IDENTITY, LoopConstraint, Transform
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots.readers.joint_couplings import JointCouplings
from objectives.errors import InputError

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
        model = self._model
        taken, name = {model.equality(k).name for k in range(model.neq)}, f"equality_{equality}"
        while name in taken:
            name += "_"
        return model.equality(equality).name or name

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
