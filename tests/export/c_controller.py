"""A controller of an export, called with NumPy arrays, beside one in Python."""

import ctypes
import re

import numpy as np

from tests.export.c_library import GUARD, OK, Guarded

RESULTS = {
    "joint_q": np.float64,
    "joint_qd": np.float64,
    "status": np.int32,
    "island_status": np.int32,
    "position_error": np.float64,
    "orientation_error": np.float64,
    "active_limits": np.int32,
    "sigma_min": np.float64,
    "scaling": np.float64,
    "iterations": np.int32,
    "island_success": np.int32,
}
LIMITS = ("limit_lower", "limit_upper", "velocity", "acceleration", "joint_step")


class Input(ctypes.Structure):
    _fields_ = [
        ("targets", ctypes.c_void_p),
        ("joint_q", ctypes.c_void_p),
        ("joint_qd", ctypes.c_void_p),
        ("dt", ctypes.c_double),
        ("deadline_ns", ctypes.c_int64),
    ]


class CController:
    """A controller in C of an export whose names begin with a prefix, beside the one that was exported."""

    def __init__(self, library, prefix, controller, size):
        self.controller, self._library, self._prefix = controller, library, prefix
        clears = controller._arrays.clears
        self.results = RESULTS | ({"clearance": np.float64} if clears else {})
        controller.reset(controller.robot.mid_joint_q)
        result = controller.step()
        self._shapes = {name: np.shape(getattr(result, name)) for name in self.results}
        self.settings_type = self._settings_type()
        fields = [
            (name, np.ctypeslib.as_ctypes_type(kind) * int(np.prod(self._shapes[name])))
            for name, kind in self.results.items()
        ]
        self._result_type = type("Result", (ctypes.Structure,), {"_fields_": fields})
        for name in ("controller_init", "controller_set", "controller_reset", "tick"):
            function = getattr(library, f"{prefix}_{name}")
            function.argtypes = [ctypes.c_void_p] * (3 if name in ("tick", "controller_reset") else 2)
            function.restype = ctypes.c_int32
            setattr(self, name, function)
        self.memory, self._result = Guarded(size), Guarded(ctypes.sizeof(self._result_type))
        assert self.controller_init(self.address, None) == OK

    @property
    def address(self):
        return self.memory.bytes.ctypes.data

    def defaults(self, **changes):
        settings = self.settings_type()
        ctypes.memmove(
            ctypes.addressof(settings),
            ctypes.addressof(self.settings_type.in_dll(self._library, f"{self._prefix}_tick_defaults")),
            ctypes.sizeof(settings),
        )
        for name, value in changes.items():
            field = getattr(settings, name)
            if isinstance(field, ctypes.Array):
                np.ctypeslib.as_array(field)[:] = np.ravel(value)
            else:
                setattr(settings, name, value)
        return settings

    def set(self, **changes):
        settings = self.defaults(**changes)
        return self.controller_set(self.address, ctypes.addressof(settings))

    def reset(self, joint_q=None, joint_qd=None):
        given = [None if values is None else np.array(values, np.float64) for values in (joint_q, joint_qd)]
        return self.controller_reset(self.address, *(None if one is None else one.ctypes.data for one in given))

    def step(self, targets=None, joint_q=None, dt=1e-3, joint_qd=None, deadline_ns=0):
        assert self.code(targets, joint_q, dt, joint_qd, deadline_ns) == OK
        return self._written_bytes()

    def code(self, targets=None, joint_q=None, dt=1e-3, joint_qd=None, deadline_ns=0):
        given = [
            None if values is None else np.ascontiguousarray(values, np.float64)
            for values in (targets, joint_q, joint_qd)
        ]
        arguments = Input(*(None if one is None else one.ctypes.data for one in given), dt, deadline_ns)
        self._result.bytes[:] = GUARD
        return self.tick(self.address, ctypes.addressof(arguments), self._result.bytes.ctypes.data)

    def _written_bytes(self):
        result = self._result_type.from_buffer(self._result.bytes)
        return {name: bytes(getattr(result, name)) for name in self.results}

    def written(self):
        return self.values(self._written_bytes())

    def untouched(self, *names):
        return all(set(self._written_bytes()[name]) == {GUARD} for name in names)

    def values(self, found):
        return {
            name: np.frombuffer(found[name], kind).reshape(self._shapes[name]) for name, kind in self.results.items()
        }

    def is_intact(self):
        return self.memory.is_intact() and self._result.is_intact()

    def _settings_type(self):
        recorded = self.controller.recorded()
        numbers = recorded.launches.numbers
        fields = [("abi", ctypes.c_uint32), ("iterations", ctypes.c_int32), ("scale_direction", ctypes.c_int32)]
        fields += [("position_tolerance", ctypes.c_double), ("orientation_tolerance", ctypes.c_double)]
        for name in (*LIMITS, *recorded.data):
            values = numbers[name].numpy()
            fields.append((name, np.ctypeslib.as_ctypes_type(values.dtype) * values.size))
        return type("Settings", (ctypes.Structure,), {"_fields_": fields})


def bytes_of(result, names=RESULTS):
    return {name: np.ascontiguousarray(getattr(result, name)).tobytes() for name in names}


def settings_of(controller, *names):
    numbers = controller.recorded().launches.numbers
    return {name: numbers[name].numpy() for name in names}


def controller_in_c(library, folder, prefix, controller):
    """The controller of an export, made, with the accelerations of one in Python."""
    size = int(re.search(r"bytes\[(\d+)\]", (folder / f"{prefix}_ik.h").read_text())[1])
    made, settings = CController(library, prefix, controller, size), settings_of(controller, "acceleration")
    if np.isfinite(settings["acceleration"]).any():
        assert made.set(**settings) == OK
    return made


def begin(ours, theirs, joint_q):
    theirs.reset(joint_q)
    assert ours.reset(joint_q) == OK


def compare(ours, theirs, steps):
    """All results of all ticks are those of Python, byte by byte; the last ones as arrays."""
    count = 0
    for step in steps:
        found, expected = ours.step(**step), bytes_of(theirs.step(**step), ours.results)
        assert found == expected, f"tick {count}"
        count += 1
    assert count
    assert ours.is_intact()
    return ours.values(found)
