"""A bulk job: its robot and targets, the files that it reads, and the folder of its results."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from ik_service.integrations.bulk.open_targets import require_pyarrow
from ik_service.robots import RobotModel
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.reading import has_lines
from ik_service.solver.given.targets import Target, as_target
from objectives.errors import InputError

FORMATS = ("parquet", "npz")
PART_ROWS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class BulkJob:
    """All that the results of a bulk job depend on, and their folder.

    Attributes:
        robot: The robot.
        targets: Links with a target pose, or Targets with one line of each of their data.
        inputs: Files of targets, .parquet or .npz, in order.
        output: Folder for the results; created if it does not exist.
        options: Budgets and tolerances.
        device: "auto", or a device of a solver.
        format: Format of the results: "parquet" or "npz".
        columns: Columns to read; None reads the known ones and refuses a file with others.
        part_rows: Rows of a part at most.

    Raises:
        InputError: A value that is not allowed.
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
        if self.format not in FORMATS:
            raise InputError(f"format is {self.format!r}. Allowed: {', '.join(FORMATS)}.")
        if self.format == "parquet":
            require_pyarrow()
        if self.options.solutions > 1:
            raise InputError("Option solutions is above 1. A bulk job gives one solution to a problem.")
        if self.options.sensitivity is not None:
            raise InputError("Option sensitivity is given. A bulk job gives no derivatives.")
        if not isinstance(self.part_rows, int) or self.part_rows < 1:
            raise InputError(f"part_rows is {self.part_rows!r}. Allowed: a whole number of at least 1.")
        if isinstance(self.targets, str) or not self.targets:
            raise InputError(f"targets is {self.targets!r}. Allowed: a list of link names or Targets.")
        if isinstance(self.inputs, str) or not self.inputs:
            raise InputError(f"inputs is {self.inputs!r}. Allowed: a list of files.")
        for target in self.checked_targets:
            if has_lines(target):
                raise InputError(f"Target '{target.link}' has data per problem. A bulk job has one line for all.")

    @cached_property
    def checked_targets(self) -> tuple[Target, ...]:
        """The targets, with links of the robot."""
        return tuple(as_target(target, self.robot) for target in self.targets)
