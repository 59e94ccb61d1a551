"""Exported solve function: checks its arguments and calls the same kernels as Python; joint limits of one call.

    kernels read limits of one line, or a line per problem; the frame has the number of lines
    without given limits -> the robot's limits, as constants of one line; nothing is computed
    else, in C, for each line: the caller's limits -> limits of the active DOFs, mimic joints included -> checked
    against those of the robot -> rounded inwards to float32 -> all forms of `LimitArrays`, and clamped starts

The C code computes limits as `LimitReading` and `LimitArrays.take` do, in the same order, with the same bits.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.export.call_frame import CallFrame, FrameArray, indented
from ik_service.export.values import SCALARS, CLayout, Constants, c_comment, c_scalar, filled
from ik_service.ik_solver import IKSolver
from ik_service.result_column import Column
from ik_service.result_schema import RESULT_COLUMNS
from ik_service.robots import RobotModel, World
from ik_service.solver.arrays.limit_arrays import LIMIT_TYPES, LimitArrays
from ik_service.solver.arrays.parts import SOLVE_EXTRAS, SOLVE_IO
from ik_service.solver.arrays.problem_arrays import FINISH_ITERATIONS
from ik_service.solver.given.arrays import NUMBER_MAX
from ik_service.solver.given.options import ITERATIONS_MAX, SEEDS_MAX
from ik_service.solver.lm import codes
from ik_service.solver.recorded_launches import RecordedLaunches
from ik_service.solver.verdict.verification import WARP_TYPES

ENDS = ("lower", "upper")
MEMBERS = ["size_t limit_lines;"]  # members of the frame besides arrays
LABEL = "limits"  # prefix of the constants' names


def limit_source(
    solver: IKSolver, prefix: str, limits: LimitArrays, members: Mapping[str, FrameArray], constants: Constants
) -> str:
    """Return the functions that set the limits of a call in a frame; `members` are the limit arrays in the frame."""
    own = {name: constants.name(item.array, LABEL) for name, item in members.items()}
    taken = [f"f->{name} = ({c_scalar(members[name].array)} *){constant};" for name, constant in own.items()]
    exact = [f"f->{end}_float64[n * LIMITED_DOFS + a] = {end}[a];" for end in ENDS if f"{end}_float64" in own]
    tables = {name: constants.name(_filled(values), LABEL) for name, values in _tables(solver.robot, limits).items()}
    counts = {"reads": len(_reads(solver.robot)), "active": solver.robot.active_dof_count}
    words: dict[str, object] = {f"own_{name}": constant for name, constant in own.items()}
    words |= tables | counts | {"prefix": prefix, "PREFIX": prefix.upper()}
    words["number_max"] = repr(NUMBER_MAX)
    words["is_hard"] = int(solver.options.joint_limits == "hard")
    words |= {
        "taken": "\n".join(indented(indented(taken))),
        "exact": "".join(f"\n{line}" for line in indented(indented(exact))),
    }
    return filled("solve/limits.c", words)


def _reads(robot: RobotModel) -> NDArray[np.intp]:
    """Give the DOFs with limits open to callers: active ones with a coordinate, and their mimic joints."""
    active = robot.active_dof[robot.dof_coordinate[robot.active_dof] >= 0]
    followers = robot.follower_dofs[robot.dof_active[robot.follower_dofs] >= 0]
    return np.concatenate([active, followers])


def _tables(robot: RobotModel, limits: LimitArrays) -> dict[str, NDArray[Any]]:
    """Give the robot's numbers used by the limit code, by their names in the template."""
    reads, follows = _reads(robot), np.zeros(robot.joint_dof_count, dtype=bool)
    follows[robot.follower_dofs] = True
    is_turn = np.ones(robot.joint_coord_count, np.uint8)
    is_turn[robot.dof_coordinate[robot.dof_coordinate >= 0]] = 0
    return {
        "is_turn": is_turn,
        "read_coordinate": robot.dof_coordinate[reads].astype(np.int32),
        "read_active": robot.dof_active[reads].astype(np.int32),
        "multiplier": np.where(follows, robot.dof_multiplier, 1.0)[reads],
        "offset": np.where(follows, robot.dof_offset, 0.0)[reads],
        "coordinate": robot.dof_coordinate[robot.active_dof].astype(np.int32),
        "dof": robot.active_dof.astype(np.int32),
        "robot_lower": robot.active_limit_lower,
        "robot_upper": robot.active_limit_upper,
        "width": limits.draw_ranges.width,
        "lowest": limits.draw_ranges.lowest,
        "middle": robot.mid_joint_q,
    }


def _filled(values: NDArray[Any]) -> "wp.array[Any]":
    """Give an array on the host, at least one number long, because C has no empty arrays."""
    return wp.array(values if len(values) else np.zeros(1, values.dtype), device="cpu")


EXAMPLE_SEED = 0
C_TYPES = {name: SCALARS[kind] for name, kind in WARP_TYPES.items()}
"""C types of results. All except `joint_q` may be NULL."""
SOLVE_SETTINGS = (
    *("PROBLEM_COUNT", "SEEDS", "ITERATIONS", "HAS_START", "RANDOM_SEED", "KEEP_ALL", "FIRST_FAILURE", "STOP"),
    *("TRIES_ALL", "BRANCHES"),
)
"""Integer settings used in C, by their names in `codes`."""
GIVEN = {
    "given_positions": "(void *)problems->positions",
    "given_joint_q": "(void *)problems->initial_joint_q",
}
"""Arrays read from the caller's memory, with the C expression of their address."""


class SolveEntry:
    """The function `PREFIX_solve`, an `ExportedFunction`; EngineError if the solver cannot be exported."""

    name, prologue = "solve", ""
    advice = filled("solve/advice.md", {})
    example = ("solve/example.c", "example", "problems.bin")

    def __init__(
        self, solver: IKSolver, prefix: str, *, orientations: bool, problem_count: int, world: World | None = None
    ) -> None:
        self._solver, self._prefix, self._orientations = solver, prefix, orientations
        self._problem_count, self._world = problem_count, world
        self.recorded = solver.recorded(orientations=orientations, world=world)
        found = {self.object_of(step.kernel) for step in self.recorded.steps}
        self.objects: tuple[str, ...] = tuple(name for name in ("io", "islands", "verdict") if name in found)

    def object_of(self, kernel: wp.Kernel) -> str:
        """Return the name of the object of a kernel: of all solves, of islands, or of verdicts."""
        if kernel.module in (SOLVE_IO, SOLVE_EXTRAS):
            return "io"
        phases = {step.phase for step in self.recorded.steps if step.kernel is kernel}
        return "verdict" if "judge" in phases else "islands"

    def texts(self, symbols: Mapping[wp.Kernel, str], layout: CLayout, constants: Constants) -> tuple[str, str]:
        """Return its part of the header, and its source without the declarations of structs and constants."""
        limits = self.recorded.limits
        assert limits is not None  # of a solve
        arrays = {
            f"{end}_{form}": FrameArray(array, ("f->limit_lines",))
            for form in LIMIT_TYPES
            for end, array in zip(ENDS, getattr(limits, form), strict=True)
        }
        frame = CallFrame(self.name, self.recorded, symbols, layout, constants, arrays)
        arrays = {name: item for name, item in arrays.items() if frame.uses(name)}
        words = self._words()
        words["read"] = "\n".join(indented(frame.calls("read")))
        words["solve"] = "\n".join(indented(frame.calls("solve", "finish", "judge")))
        header = "\n\n".join(filled(name, words) for name in ("solve/types.h", "solve/functions.h"))
        narrow = limit_source(self._solver, self._prefix, limits, arrays, constants)
        pieces = [filled("frame/take.c", {}), frame.source(GIVEN, MEMBERS), filled("solve/checks.c", words), narrow]
        return header, "\n\n".join([*pieces, filled("solve/solve.c", words)])

    def _words(self) -> dict[str, object]:
        solver, prefix, recorded = self._solver, self._prefix, self.recorded
        options, PREFIX = solver.options, prefix.upper()
        types, columns = C_TYPES | {"precision": joint_q_type(solver.robot)}, _columns(recorded)
        results = [f"    {types[one.dtype]} *{one.name}; /* {one.meaning} */" for one in columns]
        relative = any(target.reference_link for target in solver.targets)
        return {
            **{name: int(getattr(codes, name)) for name in SOLVE_SETTINGS},
            "prefix": prefix,
            "PREFIX": PREFIX,
            "reference": ", or of the target's reference link" if relative else "",
            "targets": len(solver.targets),
            "links": c_comment(", ".join(target.link for target in solver.targets)),
            "orientations": int(self._orientations),
            "seeds_max": SEEDS_MAX,
            "iterations_max": ITERATIONS_MAX,
            "seeds": options.search_seeds,
            "requested": int(options.seeds is not None),
            "max_iterations": options.max_iterations,
            "random_seed": f"{options.random_seed}u",
            "position_tolerance": repr(float(options.position_tolerance)),
            "orientation_tolerance": repr(float(options.orientation_tolerance)),
            "approximate_nearest": int(options.approximate == "nearest"),
            "results": "\n".join(results),
            **_array_words(recorded),
        }

    def example_data(self) -> bytes:
        """Return the data file of the example program: random reachable targets with the solver's answers."""
        solver, world, count = self._solver, self._world, self._problem_count
        robot, links, rng = (
            solver.robot,
            [target.link for target in solver.targets],
            np.random.default_rng(EXAMPLE_SEED),
        )
        is_checked = "clearance" in self.recorded.lines  # then the targets are poses free of contact
        joint_q = robot.random_free_joint_q(rng, count, world) if is_checked else robot.random_joint_q(rng, count)
        poses = robot.forward_kinematics(joint_q, links)
        positions, orientations = poses.positions, poses.orientations_xyzw
        result = solver.solve_as_recorded(positions, orientations if self._orientations else None, world=world)
        head = np.array([count, len(links), robot.joint_coord_count], np.int32)
        arrays: list[Any] = [head, positions, orientations, result.joint_q]
        return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


def joint_q_type(robot: RobotModel) -> str:
    """Return the C type of answers: double for robots with constraints, which float32 would leave open."""
    return "double" if robot.every_constraint else C_TYPES["precision"]


def _columns(recorded: RecordedLaunches) -> list[Column]:
    """Give the result columns that exist in C and are written by the launches."""
    return [column for column in RESULT_COLUMNS if column.meaning and column.name in recorded.lines]


def _array_words(recorded: RecordedLaunches) -> dict[str, object]:
    """Give the statements that put the caller's arrays into the frame `f`."""
    lines = recorded.lines
    given = [f"f.{name} = ({c_scalar(lines[name])} *){expression};" for name, expression in GIVEN.items()]
    places = {column.name: column.name for column in _columns(recorded)}
    finish = list[str]()
    if "finish_settings" in recorded.numbers:
        places["joint_q"] = "judged_q"
        values = ("problems->count", "1", f"{FINISH_ITERATIONS} * options->max_iterations", "1", "0", "1", "0", "0")
        finish = [f"f->numbers.finish_settings[{k}] = {value};" for k, value in enumerate(values)]
    taken = [f"if (results->{name} != NULL) f.{place} = results->{name};" for name, place in places.items()]
    words: dict[str, object] = {"given": "\n".join(indented(given)), "taken": "\n".join(indented(taken))}
    return words | {"finish": "".join(f"\n{line}" for line in indented(finish))}
