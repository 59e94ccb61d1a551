"""The plan of a bulk job: its parts, and all that its workers need.

The parts follow from the job alone, and the answer to a problem from the problem alone. So the bytes of a part do not
depend on the worker or the time.
"""

import dataclasses
import hashlib
import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ik_service.integrations.bulk.columns import ID_COLUMN, ColumnShapes
from ik_service.integrations.bulk.job import BulkJob
from ik_service.integrations.bulk.open_targets import open_targets
from ik_service.integrations.bulk.parts import InputFile, Part, part_rows
from ik_service.integrations.bulk.software import code_of, software
from ik_service.robots import RobotModel
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from objectives.errors import InputError

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

PART_DIGITS = 6
PARTS_MAX = 10**PART_DIGITS
"""Parts of a job at most; with more, the order of the names would not be the order of the problems."""


@dataclass(frozen=True, kw_only=True)
class BulkPlan:
    """A job with all that its workers need on any machine; it can be pickled.

    Attributes:
        robot_arrays: Fields of the robot, so that no worker reads its file.
        targets: The targets.
        options: Budgets and tolerances.
        device: Device of the workers.
        code: Target of their compiled code, as `code_of` returns it.
        inputs: The files.
        shapes: The columns that are read.
        passed_over: Columns that are known and not read.
        output: Folder for the results.
        format: "parquet" or "npz".
        part_rows: Most rows of a part.
        software: Versions of the packages that the results depend on.
    """

    robot_arrays: dict[str, Any]
    targets: tuple[Target, ...]
    options: SolverOptions
    device: str
    code: str
    inputs: tuple[InputFile, ...]
    shapes: ColumnShapes
    passed_over: tuple[str, ...]
    output: str
    format: str
    part_rows: int
    software: dict[str, str]

    @classmethod
    def of(cls, job: BulkJob, device: str) -> "Self":
        """Make the plan of a job, from its files.

        Args:
            job: The job.
            device: Device of its workers.

        Raises:
            InputError: A file cannot be read or lacks a column, no file has targets, or there are too many parts.
        """
        shapes = ColumnShapes.known(job.robot, len(job.checked_targets))
        inputs: list[InputFile] = []
        has_id = False
        for number, path in enumerate(map(os.path.abspath, job.inputs)):
            found = open_targets(path)
            if number == 0:
                shapes = shapes.chosen(path, found.column_names, job.columns)
            elif job.columns is None:
                extra = [name for name in found.column_names if name not in (*shapes.shapes, ID_COLUMN)]
                if extra:
                    raise InputError(f"'{path}' has a column '{extra[0]}', which '{inputs[0].path}' has not.")
            has_id |= ID_COLUMN in found.column_names
            found.check(shapes)
            found.verify()
            state = os.stat(path)
            inputs.append(InputFile(path, found.row_groups, state.st_size, state.st_mtime_ns, found.fingerprint))
        if not any(file.row_count for file in inputs):
            raise InputError(f"No targets in {', '.join(repr(file.path) for file in inputs)}.")
        fields = {item.name: getattr(job.robot, item.name) for item in dataclasses.fields(RobotModel)}
        plan = cls(
            robot_arrays=fields | {"locked": dict(job.robot.locked)},
            targets=job.checked_targets,
            options=job.options,
            device=device,
            code=code_of(device),
            inputs=tuple(inputs),
            shapes=shapes,
            passed_over=(ID_COLUMN,) if has_id and job.columns is None else (),
            output=os.path.abspath(job.output),
            format=job.format,
            part_rows=job.part_rows,
            software=software(),
        )
        plan._check_part_count()
        return plan

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, without cached properties."""
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}

    @cached_property
    def robot(self) -> RobotModel:
        """The robot."""
        return RobotModel(**self.robot_arrays)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts in order."""
        found: list[Part] = []
        before = 0
        for number, file in enumerate(self.inputs):
            first = 0
            for rows in part_rows(file.row_groups, self.part_rows):
                found.append(Part(len(found), number, first, rows, before + first))
                first += rows
            before += first
        return tuple(found)

    def _check_part_count(self) -> None:
        fewest = -(-self.problem_count // self.part_rows)  # no need to compute the parts of a job that is far too large
        count = fewest if fewest > PARTS_MAX else len(self.parts)
        if count > PARTS_MAX:
            raise InputError(
                f"The job has {count} parts or more at part_rows {self.part_rows}. Allowed: {PARTS_MAX}. Give larger "
                "part_rows, or make several jobs of it."
            )

    @property
    def problem_count(self) -> int:
        """Number of problems."""
        return sum(file.row_count for file in self.inputs)

    def part_path(self, part: Part) -> Path:
        """Return the file of the results of a part; the order of the names is the order of the results."""
        return Path(self.output) / f"part-{part.number:0{PART_DIGITS}d}.{self.format}"

    @cached_property
    def digest(self) -> str:
        """A hash of the description, stored in the files of results."""
        return hashlib.sha256(json.dumps(self.description(), sort_keys=True).encode()).hexdigest()

    def description(self) -> dict[str, Any]:
        """Return all that the bytes of the results depend on, in plain values."""
        options = _plain(dataclasses.asdict(self.options)) | {
            "jacobian_mode": self.options.jacobian_type().name.lower()
        }
        inputs = [
            {
                "name": Path(file.path).name,
                "rows": file.row_count,
                "bytes": file.bytes,
                "modified_ns": file.modified_ns,
                "fingerprint": file.fingerprint,
            }
            for file in self.inputs
        ]
        return {
            "robot": {"name": self.robot.name, "content": self.robot.content_hash},
            "targets": [_plain(dataclasses.asdict(target)) for target in self.targets],
            "options": options,
            "code": self.code,
            "inputs": inputs,
            "columns": list(self.shapes.shapes),
            "format": self.format,
            "part_rows": self.part_rows,
            "software": self.software,
        }


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields as JSON gives them back."""
    return {name: _plain_value(value) for name, value in fields.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
