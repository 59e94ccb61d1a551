"""Reports on a bulk job and on its parts.

IKError
└── FailedPartsError   some parts of a bulk job have no results; carries the report on all
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ik_service.solver.lm.status import STATUS_WORDS
from objectives.errors import IKError

NAMED_FAILURES = 5


@dataclass(frozen=True)
class PartReport:
    """A report on a part, in plain values.

    Attributes:
        number: Number of the part.
        status_counts: Problems of each status, by code; empty where the part failed.
        failure: Why there are no results; empty where there are.
        worker: Machine and process of the worker.
        start_s: Time that the worker took to start, the same for all of its parts [s].
        read_s: Time to read the targets [s].
        solve_s: Time to solve [s].
        write_s: Time to write the results [s].
    """

    number: int
    status_counts: list[int] = field(default_factory=list)
    failure: str = ""
    worker: str = ""
    start_s: float = 0.0
    read_s: float = 0.0
    solve_s: float = 0.0
    write_s: float = 0.0


@dataclass
class BulkReport:
    """A report on a job.

    Attributes:
        problem_count: Problems of the job.
        part_count: Parts of the job.
        passed_over: Columns of the files that are known and not read.
        resumed_parts: Parts that an earlier run had finished.
        status_counts: Problems of each status, by its word.
        failures: Why parts have no results, by number of the part.
        workers: Time that each worker of this run took to start [s].
        read_s: Time to read targets in this run, summed over workers [s].
        solve_s: Time to solve, summed over workers [s].
        write_s: Time to write results, summed over workers [s].
        wall_s: Time of this run from the first part to the last [s].
    """

    problem_count: int
    part_count: int
    passed_over: tuple[str, ...] = ()
    resumed_parts: int = 0
    status_counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATUS_WORDS, 0))
    failures: dict[int, str] = field(default_factory=dict)
    workers: dict[str, float] = field(default_factory=dict)
    read_s: float = 0.0
    solve_s: float = 0.0
    write_s: float = 0.0
    wall_s: float = 0.0

    @property
    def solved(self) -> int:
        """Problems with success."""
        return self.status_counts["converged"]

    @property
    def done(self) -> int:
        """Problems that have a result."""
        return sum(self.status_counts.values())

    def count(self, status_counts: Sequence[int]) -> None:
        """Add the status counts of a part."""
        for word, number in zip(STATUS_WORDS, status_counts, strict=True):
            self.status_counts[word] += number

    def add(self, part: PartReport) -> None:
        """Add the report on a part of this run."""
        if part.failure:
            self.failures[part.number] = part.failure
            return
        self.count(part.status_counts)
        self.workers[part.worker] = part.start_s
        self.read_s += part.read_s
        self.solve_s += part.solve_s
        self.write_s += part.write_s


class FailedPartsError(IKError):
    """Some parts of a bulk job have no results.

    Attributes:
        report: The report on the job.
    """

    def __init__(self, report: BulkReport) -> None:
        self.report = report
        reasons = [report.failures[number] for number in sorted(report.failures)]
        distinct = list(dict.fromkeys(reasons))
        more = f" (and {len(distinct) - NAMED_FAILURES} more reasons)" if len(distinct) > NAMED_FAILURES else ""
        super().__init__(
            f"{len(reasons)} of {report.part_count} parts failed; the others have their results. "
            + " ".join(distinct[:NAMED_FAILURES])
            + more
        )
