"""Exported controller functions: a controller in memory of the caller, and the same kernels as in Python."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import warp as wp

from ik_service.control import IKController, LimitKind
from ik_service.control.caller_arrays import DT_LEAST, DT_MOST
from ik_service.control.clearance.limit import KEEP_STEP
from ik_service.control.tick import arrays as tick_task
from ik_service.control.tick.arrays import CLEARANCE_COLUMN, STEPS_MIN, TICK_COLUMNS, TICK_ITERATIONS_MAX
from ik_service.control.tick_islands import ISLAND
from ik_service.errors import EngineError
from ik_service.export.call_frame import StoredFrame, indented
from ik_service.export.values import CLayout, Constants, c_comment, c_number, c_numbers, c_scalar, c_string, filled
from ik_service.mechanism.configuration import MIN_QUATERNION_LENGTH
from ik_service.robots import RobotModel
from ik_service.solver.given.arrays import NUMBER_MAX

TICK_SETTINGS = (
    *("ROBOTS", "ITERATIONS_NOW", "BEGIN", "FINISH", "SCALES", "CUT", "BRAKES", "CLEARS", "PROPOSING", "ANSWERING"),
    *("DT", "POSITION_TOLERANCE", "ORIENTATION_TOLERANCE", "CLEARANCE_LEAST"),
)
"""Settings and numbers used in C, by their names in `tick_task`."""
MEMBERS = (
    *(("uint32_t", "abi"), ("int32_t", "iterations"), ("int32_t", "is_placed")),
    *(("int64_t", "answer_ns"), ("int64_t", "answer_before_ns")),
)
"""Members of a controller besides arrays: C types and names."""
WIDTHS = {"coordinates": "COORDINATES", "dofs": "DOFS", "targets": "TICK_TARGETS", "islands": "ISLANDS"}
"""C names of the extents of axes."""
DATA = {
    "posture": "configuration that joints are drawn to [m or rad]",
    "offset": "tool in the frame of its link: position [m], unit quaternion",
    "row_weights": "what the weights of its rows are multiplied by",
}
"""Comments on data of objectives, by the end of their names."""
LIMITS = ("limit_lower", "limit_upper", "velocity", "acceleration", "joint_step")
"""Arrays of limits, in the order of the settings."""
CIRCLE_RADIUS = 0.05  # of the circles [m]
CIRCLES = 2
EXAMPLE_DT = 1e-3
UNMEASURED = tuple(name for name, column in TICK_COLUMNS.items() if column.null)


class TickEntry:
    """The functions `PREFIX_tick` and `PREFIX_controller_...`, an `ExportedFunction`; EngineError if not exportable."""

    name = "tick"
    prologue = "#ifndef _POSIX_C_SOURCE\n#define _POSIX_C_SOURCE 199309L /* clock_gettime */\n#endif\n"
    example = ("tick/example.c", "tick_example", "ticks.bin")
    advice = filled("tick/advice.md", {})

    def __init__(self, controller: IKController, prefix: str, *, tick_count: int) -> None:
        if controller.robot.has_closing_limits:  # C settings may add acceleration limits, which closing limits exclude
            raise EngineError("Ticks of robots whose closing joints have limits cannot be exported yet.")
        self._controller, self._prefix, self._tick_count = controller, prefix, tick_count
        self._ticks = controller.recorded()
        self.recorded = self._ticks.launches
        self._kept_clear = {step.kernel for step in self.recorded.steps if step.phase == KEEP_STEP}
        self.objects: tuple[str, ...] = ("tick", "clearance") if self._kept_clear else ("tick",)

    def object_of(self, kernel: wp.Kernel) -> str:
        """Return the name of the object of a kernel."""
        return "clearance" if kernel in self._kept_clear else "tick"

    def texts(self, symbols: Mapping[wp.Kernel, str], layout: CLayout, constants: Constants) -> tuple[str, str]:
        """Return its part of the header, and its source without the declarations of structs and constants."""
        frame = StoredFrame(self.name, self.recorded, symbols, layout, constants)
        functions, size = frame.functions_and_structs(MEMBERS)
        steps, keep = (_lines(frame.calls(phase)).replace("&f", "f") for phase in (ISLAND, KEEP_STEP))
        words = self._words() | {"size": size, "steps": steps, "keep": keep}
        words |= {"propose": "", "answer": "", "clear": ""}
        if self._kept_clear:
            settings, numbers = ("f->numbers.settings[{}] = {};", "f->numbers.numbers[{}] = {};")
            words["propose"] = "\n" + _lines([settings.format(words["CLEARS"], words["PROPOSING"])])
            words["clear"] = "\n" + _lines([numbers.format(words["CLEARANCE_LEAST"], words["clearance_least"])])
            words["answer"] = "\n" + filled("tick/answer.c", words)
        controller, tick = filled("tick/controller.c", words), filled("tick/tick.c", words)
        source = [filled("tick/constants.c", words), functions, controller, tick]
        return filled("tick/header.h", words), "\n\n".join(source)

    def example_data(self) -> bytes:
        """Return the data file of the example program."""
        return example_ticks(self._controller, self.recorded.numbers, self._tick_count)

    def _words(self) -> dict[str, object]:
        controller, prefix = self._controller, self._prefix
        robot, numbers = controller.robot, self.recorded.numbers
        active_names = [robot.dof_names[dof] for dof in robot.active_dof]
        kinds = [f"{prefix.upper()}_LIMIT_{kind.name} = {kind.value}" for kind in LimitKind]
        islands = sum(step.phase == ISLAND for step in self.recorded.steps)
        before = [f"input_before_{k}" for k in range(islands)]
        kept = (*LIMITS, *self._ticks.data)
        return {
            **{name: int(getattr(tick_task, name)) for name in TICK_SETTINGS},
            **_robot_words(robot),
            "prefix": prefix,
            "PREFIX": prefix.upper(),
            "links": c_comment(", ".join(target.link for target in controller.targets) or "none"),
            "targets": len(controller.targets),
            "robots": controller.robots,
            "islands": islands,
            "clearance_least": c_number(float(numbers["numbers"].numpy()[tick_task.CLEARANCE_LEAST]), "double"),
            "width": numbers["status"].shape[1],
            "active": robot.active_dof_count,
            "dof_names": _lines([f"{c_string(name)}," for name in robot.dof_names]),
            "active_dof_names": _lines([f"{c_string(name)}," for name in active_names]),
            "kinds": ",\n".join(indented(kinds)),
            "idle": _list([str(column) for column in self._ticks.unmoved_coordinates]),
            "still": _list([str(dof) for dof in self._ticks.unmoved_dofs]),
            "dt_least": repr(DT_LEAST),
            "dt_most": repr(DT_MOST),
            "iterations_max": TICK_ITERATIONS_MAX,
            "steps_min": STEPS_MIN,
            "data": _lines([_member(label, numbers[label]) for label in self._ticks.data]),
            "defaults": _lines([f"{value}," for value in self._defaults()]),
            "taken": _lines([_copy(f"f->numbers.{label}", f"settings->{label}") for label in kept]),
            "forget": _lines([_to_nan(label) for label in before]),
            "unmeasured": _lines([_to_nan(label) for label in UNMEASURED if numbers[label].size]),
            **self._result_words(),
        }

    def _defaults(self) -> list[str]:
        ticks, numbers = self._ticks, self.recorded.numbers
        scale = int(numbers["settings"].numpy()[tick_task.SCALES])
        place = int(tick_task.POSITION_TOLERANCE), int(tick_task.ORIENTATION_TOLERANCE)
        tolerances = [c_number(float(numbers["numbers"].numpy()[k]), "double") for k in place]
        limits = [f"{{{', '.join(c_numbers(numbers[label].numpy()))}}}" for label in LIMITS]
        data = [_initialiser(numbers[label]) for label in ticks.data]
        return [f"{self._prefix.upper()}_ABI", str(ticks.iterations), str(scale), *tolerances, *limits, *data]

    def _result_words(self) -> dict[str, object]:
        """Give the result struct's members and assignments, with a line per robot if there are several."""
        PREFIX, numbers, one = self._prefix.upper(), self.recorded.numbers, self._controller.robots == 1
        dimension, at = ("", "") if one else (f"[{PREFIX}_TICK_ROBOTS]", "[r]")
        members, given = [], []
        for source, column in TICK_COLUMNS.items():
            if source in UNMEASURED and not numbers[source].size:
                continue
            kind, width = c_scalar(numbers[source]), f"[{PREFIX}_{WIDTHS[column.axes[0]]}]"
            if source == "status":
                members.append(f"{kind} status{dimension}; /* the gravest of those of the islands */")
            members.append(f"{kind} {column.name}{dimension}{width}; /* {column.meaning} */")
            line = f"f->numbers.{source} + r * {numbers[source].shape[1]}"
            given.append(_copy(f"result->{column.name}{at}", line))
        if self._kept_clear:
            members.append(f"double {CLEARANCE_COLUMN.name}{dimension}; /* {CLEARANCE_COLUMN.meaning} */")
            given.append(f"result->{CLEARANCE_COLUMN.name}{at} = f->numbers.clearance[r];")
        each = "" if one else ", a line for each robot"
        return {"results": _lines(members), "given": _lines(indented(given)), "at": at, "each": each}


def _robot_words(robot: RobotModel) -> dict[str, object]:
    followers = robot.follower_dofs
    pairs = [(robot.dof_coordinate[dof], robot.dof_coordinate[robot.dof_leader[dof]]) for dof in followers]
    factors = [c_numbers(np.array([robot.dof_multiplier[dof], robot.dof_offset[dof]])) for dof in followers]
    return {
        "middle": ", ".join(c_numbers(robot.mid_joint_q)),
        "quaternions": _list([str(first) for first in robot.quaternion_starts.values()]),
        "followers": _list([f"{{{own}, {leader}}}" for own, leader in pairs], "{0, 0}"),
        "follower_numbers": _list([f"{{{', '.join(pair)}}}" for pair in factors], "{0, 0}"),
        "largest": repr(NUMBER_MAX),
        "least_length": repr(MIN_QUATERNION_LENGTH),
    }


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(indented(lines))


def _list(entries: Sequence[str], last: str = "0") -> str:
    """Give an initialiser with one more entry."""
    return f"{{{', '.join([*entries, last])}}}"


def _member(label: str, array: "wp.array[Any]") -> str:
    columns = array.numpy().size // array.shape[0]
    dimensions = f"[{columns}]" if array.shape[0] == 1 else f"[{array.shape[0]}][{columns}]"
    meaning = next((text for end, text in DATA.items() if label.endswith(end)), "as the objective has it")
    return f"{c_scalar(array)} {label}{dimensions}; /* {meaning} */"


def _initialiser(array: "wp.array[Any]") -> str:
    lines = [f"{{{', '.join(c_numbers(line))}}}" for line in array.numpy().reshape(array.shape[0], -1)]
    return lines[0] if len(lines) == 1 else f"{{{', '.join(lines)}}}"


def _copy(to: str, source: str) -> str:
    return f"memcpy({to}, {source}, sizeof {to});"


def _to_nan(label: str) -> str:
    return f"to_nan(f->numbers.{label}, sizeof f->numbers.{label});"


def example_ticks(controller: IKController, numbers: Mapping[str, "wp.array[Any]"], count: int) -> bytes:
    """Return circles of all targets with the controller's commands, and restore its varying arrays `numbers`."""
    robot, robots = controller.robot, controller.robots
    start = np.tile(robot.mid_joint_q, (robots, 1))
    targets = np.tile(_circles(controller, count)[:, None], (1, robots, 1, 1))
    with _restored(numbers):
        controller.reset(start)
        commands = [controller.step(line if line.size else None, dt=EXAMPLE_DT).joint_q.copy() for line in targets]
    head = np.array([count, robots, targets.shape[2], robot.joint_coord_count], np.int32)
    return b"".join(np.ascontiguousarray(array).tobytes() for array in (head, start, targets, np.array(commands)))


def _circles(controller: IKController, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Give circles that begin and end at rest at the mid-range configuration, [count, targets, 7]."""
    robot = controller.robot
    links = [target.link for target in controller.targets]
    s = np.linspace(0.0, 1.0, count)
    turn = 2.0 * np.pi * CIRCLES * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    poses = np.zeros((count, len(links), 7))
    if links:
        middle = robot.forward_kinematics(robot.mid_joint_q[None], links)
        poses[..., :3], poses[..., 3:] = middle.positions[0], middle.orientations_xyzw[0]
        poses[..., 0] += CIRCLE_RADIUS * (np.cos(turn) - 1.0)[:, None]
        poses[..., 1] += CIRCLE_RADIUS * np.sin(turn)[:, None]
    return poses


@contextmanager
def _restored(numbers: Mapping[str, "wp.array[Any]"]) -> Iterator[None]:
    before = {label: array.numpy().copy() for label, array in numbers.items()}
    try:
        yield
    finally:
        for label, values in before.items():
            numbers[label].numpy()[...] = values
