"""A worker of a bulk job: one solver on one device, which solves parts and writes their results."""

import os
import socket
import time
from collections.abc import Callable, Mapping

import numpy as np

from ik_service.errors import EngineError
from ik_service.ik_solver import IKSolver
from ik_service.integrations.bulk.columns import Columns, faulty_rows, with_placeholders
from ik_service.integrations.bulk.open_targets import open_targets
from ik_service.integrations.bulk.part_columns import PartColumns
from ik_service.integrations.bulk.part_files import write_part
from ik_service.integrations.bulk.parts import Part
from ik_service.integrations.bulk.plan import BulkPlan
from ik_service.integrations.bulk.report import PartReport
from ik_service.integrations.bulk.software import code_of, software
from ik_service.integrations.bulk.target_file import TargetFile
from ik_service.solver.launches.result import IKResult
from objectives.errors import InputError

SOLVED_AT_ONCE = 1 << 16
ProgressCallback = Callable[[int], None]
"""Called with the number of problems that were solved since the last call."""


def ignore_progress(count: int) -> None:
    """Do nothing."""


class PartWorker:
    """Solves parts, one after the other.

    Args:
        plan: The plan of the job.
        mark_faulty: Whether problems with numbers that are not allowed get the status `invalid`; else their part fails.
        threads: Threads of the solver on a CPU.
        solved: Called during a part, not at its end.
    """

    def __init__(
        self,
        plan: BulkPlan,
        *,
        mark_faulty: bool = False,
        threads: int | None = None,
        solved: ProgressCallback = ignore_progress,
    ) -> None:
        started = time.perf_counter()
        self._plan, self._mark_faulty, self._solved = plan, mark_faulty, solved
        self._file: tuple[int, TargetFile] | None = None
        self._refusal = self._difference()
        if not self._refusal:
            targets, options = list(plan.targets), plan.options
            self._solver = IKSolver(plan.robot, targets, device=plan.device, threads=threads, options=options)
            self._warm_up()
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._start_s = time.perf_counter() - started

    def solve_part(self, part: Part) -> PartReport:
        """Solve a part and write its results; the report has the reason where that fails."""
        if self._refusal:
            return PartReport(part.number, failure=self._refusal)
        times = [time.perf_counter()]
        try:
            columns = self._read(part)
            times.append(time.perf_counter())
            results = self._solve(part, columns)
            times.append(time.perf_counter())
            write_part(self._plan, part, results)
            times.append(time.perf_counter())
        except (InputError, EngineError) as error:
            return PartReport(part.number, failure=str(error))
        except OSError as error:
            where = error.filename or self._plan.part_path(part)
            return PartReport(part.number, failure=f"{self._name}: '{where}': {error.strerror or error}.")
        read_s, solve_s, write_s = np.diff(times).tolist()
        counts = results.status_counts
        return PartReport(part.number, counts, "", self._name, self._start_s, read_s, solve_s, write_s)

    def _difference(self) -> str:
        """Software of this worker that differs from the plan, so that its bytes would differ; empty where none does."""
        here: Mapping[str, str] = software() | {"code": code_of(self._plan.device)}
        wanted = self._plan.software | {"code": self._plan.code}
        differing = [f"{name} is {here[name]}, not {wanted[name]}" for name in wanted if here[name] != wanted[name]]
        return f"On {socket.gethostname()} {'; '.join(differing)}." if differing else ""

    def _warm_up(self) -> None:
        """Solve once, so that the time to compile kernels is not counted as that of a part."""
        targets, shapes = len(self._plan.targets), self._plan.shapes.shapes
        positions = np.zeros((1, targets, 3)) if "positions" in shapes else None
        orientations_xyzw = np.tile([0.0, 0.0, 0.0, 1.0], (1, targets, 1)) if "orientations_xyzw" in shapes else None
        self._solver.solve(positions, orientations_xyzw)

    def _read(self, part: Part) -> Columns:
        file = self._plan.inputs[part.file]
        file.check_unchanged()
        if self._file is None or self._file[0] != part.file:
            self._file = part.file, open_targets(file.path)
            self._file[1].check(self._plan.shapes)
        columns = self._file[1].read(self._plan.shapes, part.first_row, part.row_count)
        file.check_unchanged()  # the columns may have values that were written meanwhile
        return columns

    def _solve(self, part: Part, columns: Columns) -> PartColumns:
        results = PartColumns(self._plan, part)
        for begin in range(0, part.row_count, SOLVED_AT_ONCE):
            rows = slice(begin, min(begin + SOLVED_AT_ONCE, part.row_count))
            given = {name: array[rows] for name, array in columns.items()}
            try:
                results.put(rows, self._answer(given))
            except InputError as error:
                faulty = faulty_rows(self._plan.robot, given)
                if not faulty.any():  # not the fault of a row
                    raise
                if not self._mark_faulty:
                    raise self._row_error(part, begin, int(np.argmax(faulty)), given) from error
                results.put(rows, self._answer(with_placeholders(self._plan.robot, given, faulty)))
                results.mark_invalid(begin + np.flatnonzero(faulty))
            if rows.stop < part.row_count:
                self._solved(rows.stop - rows.start)
        return results

    def _answer(self, given: Columns) -> IKResult:
        return self._solver.solve(
            given.get("positions"), given.get("orientations_xyzw"), initial_joint_q=given.get("initial_joint_q")
        )

    def _row_error(self, part: Part, begin: int, row: int, given: Columns) -> InputError:
        """The error of a row of columns that begin at `begin` of a part, with its file and its row in the file."""
        where = f"'{self._plan.inputs[part.file].path}' row {part.first_row + begin + row}"
        try:
            self._answer({name: array[row : row + 1] for name, array in given.items()})
        except InputError as error:
            return InputError(f"{where}: {error}")
        return InputError(f"{where} holds a number that is not allowed.")
