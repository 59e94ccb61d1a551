"""A bulk job and its plan: the files and the parts of the job, one file of results per part.

Parts depend only on the job, so the bytes of a part do not depend on the worker or the time.
"""

import hashlib
import importlib
import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ik_service.extras import how_to_install
from ik_service.integrations.bulk.targets import ID_COLUMN, NpzTargets, Shapes, chosen_shapes
from ik_service.robots import RobotModel
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target, as_target, has_lines
from objectives.errors import InputError

FORMATS = ("parquet", "npz")
PART_ROWS = 1 << 20
END_BYTES = 1 << 20  # hashed bytes at each end of a file of targets
PARTS_MAX = 10**6  # with more, the order of the names would not be the order of the problems


@dataclass(frozen=True, kw_only=True)
class BulkJob:
    """All inputs of a bulk job with an effect on the results, and the output folder.

    Attributes:
        robot: The robot.
        targets: Links with a target pose, or Targets with one row of data each.
        inputs: Files of targets, .parquet or .npz, in order.
        output: Folder for the results; created if missing.
        options: Budgets and tolerances.
        device: "auto", or a device of a solver.
        format: Format of the results: "parquet" or "npz".
        columns: Columns to read; None reads the known columns and refuses a file with others.
        part_rows: Rows of a part at most.

    Raises:
        InputError: A value is not allowed.
        UnknownNameError: A link is not in the robot.
    """

    robot: RobotModel
    targets: Sequence[Target | str]
    inputs: Sequence[str | os.PathLike[str]]
    output: str | os.PathLike[str]
    options: SolverOptions = field(default_factory=SolverOptions)
    device: str = "auto"
    format: Literal["parquet", "npz"] = "parquet"
    columns: Sequence[str] | None = None
    part_rows: int = PART_ROWS

    def __post_init__(self) -> None:
        """Check the values, without reading a file."""
        one_file = isinstance(self.inputs, (str, bytes, os.PathLike))
        allowed = {
            "format": (self.format in FORMATS, ", ".join(FORMATS)),
            "part_rows": (isinstance(self.part_rows, int) and self.part_rows >= 1, "a whole number of at least 1"),
            "targets": (not isinstance(self.targets, str) and self.targets, "a list of link names or Targets"),
            "inputs": (not one_file and self.inputs, "a list of files"),
        }
        for name, (is_allowed, values) in allowed.items():
            if not is_allowed:
                raise InputError(f"{name} is {getattr(self, name)!r}. Allowed: {values}.")
        if self.format == "parquet":
            parquet()
        if self.options.solution_count > 1:
            raise InputError("Option solutions is above 1. A bulk job gives one solution to a problem.")
        if self.options.sensitivity is not None:
            raise InputError("Option sensitivity is given. A bulk job gives no derivatives.")
        for target in self.checked_targets:
            if has_lines(target):
                raise InputError(f"Target '{target.link}' has data per problem. A bulk job has one line for all.")

    @property
    def checked_targets(self) -> list[Target]:
        """The targets, with links of the robot."""
        return [as_target(target, self.robot) for target in self.targets]


def open_targets(path: str) -> Any:
    """Open a file of targets: `NpzTargets` or `ParquetTargets`; InputError for other formats."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".npz", ".parquet"):
        raise InputError(f"Targets '{path}' have the suffix '{suffix}'. Allowed in a bulk job: .parquet, .npz.")
    return NpzTargets(path) if suffix == ".npz" else parquet().ParquetTargets(path)


def parquet() -> Any:
    """Return the module for Parquet; InputError where pyarrow is not installed."""
    try:
        return importlib.import_module("ik_service.integrations.bulk.parquet")
    except ModuleNotFoundError as error:
        advice = f"{how_to_install('bulk')} Without it: --format npz, or files .npz or .csv."
        raise InputError(f"Parquet needs pyarrow. {advice}") from error


class InputFile(NamedTuple):
    """A file of targets when the plan was made: its rows, size [bytes], last change [ns] and a hash of both ends."""

    path: str
    rows: int
    size: int
    modified_ns: int
    ends: str  # distinguishes files of the same name, size and time, such as unpacked shards

    @classmethod
    def of(cls, path: str, rows: int) -> "InputFile":
        """Return the present state of a file; OSError for a missing file."""
        state = os.stat(path)
        with open(path, "rb") as file:
            ends = file.read(END_BYTES)
            file.seek(max(0, state.st_size - END_BYTES))
            ends += file.read(END_BYTES)
        return cls(path, rows, state.st_size, state.st_mtime_ns, hashlib.sha256(ends).hexdigest())


class Part(NamedTuple):
    """Rows of one file of targets, with one file of results; problems of a job and rows of a file count from 0."""

    number: int
    file: InputFile
    first_row: int
    row_count: int
    first_problem: int


@dataclass(frozen=True)
class BulkPlan:
    """A job with the data for its workers: device, files, columns to read and ignored columns."""

    job: BulkJob
    device: str
    inputs: tuple[InputFile, ...]
    shapes: Shapes
    passed_over: tuple[str, ...]

    @classmethod
    def of(cls, job: BulkJob, device: str) -> "BulkPlan":
        """Make the plan of a job from its files; InputError for an unsuitable file or too many parts."""
        inputs, passed_over, shapes = list[InputFile](), set[str](), None
        for path in map(os.path.abspath, job.inputs):
            found = open_targets(path)
            names = found.column_names
            shapes = shapes or chosen_shapes(job.robot, len(job.targets), path, names, job.columns)
            for name in shapes:
                if name not in names:
                    raise InputError(f"'{path}' has no column '{name}'. Columns in it: {', '.join(names) or 'none'}.")
            for name in names if job.columns is None else ():
                if name not in (*shapes, ID_COLUMN):
                    raise InputError(f"'{path}' has a column '{name}', which '{inputs[0].path}' has not.")
                passed_over |= {name} - set(shapes)
            inputs.append(InputFile.of(path, found.check(shapes)))
        job = replace(job, output=os.path.abspath(job.output))
        plan = cls(job, device, tuple(inputs), shapes or {}, tuple(passed_over))
        if not plan.problem_count:
            raise InputError(f"No targets in {', '.join(repr(file.path) for file in inputs)}.")
        count = sum(-(-file.rows // job.part_rows) for file in inputs)
        if count > PARTS_MAX:
            advice = "Give larger part_rows, or make several jobs of it."
            raise InputError(f"The job has {count} parts at part_rows {job.part_rows}. Allowed: {PARTS_MAX}. {advice}")
        return plan

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts in order; row counts of the parts of a file differ by at most one."""
        found, before = list[Part](), 0
        for file in self.inputs:
            bounds = np.linspace(0, file.rows, -(-file.rows // self.job.part_rows) + 1).astype(int).tolist()
            for first, end in itertools.pairwise(bounds):
                found.append(Part(len(found), file, first, end - first, before + first))
            before += file.rows
        return tuple(found)

    @property
    def problem_count(self) -> int:
        """Number of problems."""
        return sum(file.rows for file in self.inputs)

    def part_path(self, part: Part) -> Path:
        """Return the file of the results of a part; the order of the names is the order of the results."""
        return Path(self.job.output) / f"part-{part.number:06d}.{self.job.format}"

    @cached_property
    def digest(self) -> str:
        """A hash of the description, stored in the files of results."""
        return hashlib.sha256(json.dumps(self.description(), sort_keys=True).encode()).hexdigest()

    def description(self) -> dict[str, Any]:
        """Return all inputs with an effect on the results, as decoded from JSON."""
        job = self.job
        groups: dict[str, dict[str, Any]] = {"robot": {"name": job.robot.name, "content": job.robot.content_hash}}
        groups["options"] = asdict(job.options) | {"jacobian_mode": job.options.jacobian_type().name.lower()}
        groups |= {f"targets[{k}]": asdict(target) for k, target in enumerate(job.checked_targets)}
        for k, file in enumerate(self.inputs):
            groups[f"inputs[{k}]"] = file._asdict() | {"path": os.path.basename(file.path)}
        found = {f"{group}.{name}": value for group, values in groups.items() for name, value in values.items()}
        found |= {"columns": list(self.shapes), "format": job.format, "part_rows": job.part_rows}
        found["version"] = version("ik-service")
        return dict(json.loads(json.dumps(found, default=lambda array: array.tolist())))
