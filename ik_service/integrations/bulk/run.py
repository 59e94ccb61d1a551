"""Running a bulk job: workers solve the parts without results, and their reports are counted."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from ik_service.integrations.bulk.job import BulkJob
from ik_service.integrations.bulk.job_folder import job_folder
from ik_service.integrations.bulk.part_files import finished_counts
from ik_service.integrations.bulk.parts import Part
from ik_service.integrations.bulk.plan import BulkPlan
from ik_service.integrations.bulk.report import BulkReport, FailedPartsError, PartReport
from ik_service.integrations.bulk.worker import PartWorker, ProgressCallback, ignore_progress
from ik_service.solver.construction import resolve_device

Progress = Callable[[int, int], None]
"""Called with the number of finished problems and of all problems of the job."""


class Workers(Protocol):
    """The workers of a job."""

    def connected(self) -> AbstractContextManager[object]:
        """Connect to the workers' machines for the time of the job."""

    def device(self, asked: str) -> str:
        """Return the device of a worker; "auto" is resolved."""

    def run(
        self, plan: BulkPlan, parts: Sequence[Part], *, mark_faulty: bool, solved: ProgressCallback = ignore_progress
    ) -> Iterator[PartReport]:
        """Solve parts in any order and give a report on each; may call `solved` during a part."""


class LocalWorker:
    """One worker in this process.

    Args:
        threads: Threads of its solver on a CPU; None is one. Results do not depend on them.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        self._threads = threads

    def connected(self) -> AbstractContextManager[object]:
        """Do nothing."""
        return nullcontext()

    def device(self, asked: str) -> str:
        """Return the device of a solver on this machine."""
        return str(resolve_device(asked))

    def run(
        self, plan: BulkPlan, parts: Sequence[Part], *, mark_faulty: bool, solved: ProgressCallback = ignore_progress
    ) -> Iterator[PartReport]:
        """Solve the parts one after the other."""
        worker = PartWorker(plan, mark_faulty=mark_faulty, threads=self._threads, solved=solved)
        return map(worker.solve_part, parts)


def solve_job(
    job: BulkJob, workers: Workers | None = None, *, mark_faulty: bool = False, progress: Progress | None = None
) -> BulkReport:
    """Solve a bulk job, or resume an interrupted one.

    Args:
        job: The job.
        workers: The workers; None is one worker in this process.
        mark_faulty: Whether problems with numbers that are not allowed get the status `invalid`; else their parts fail.
            It may differ when a job is resumed.
        progress: Called with the progress.

    Returns:
        A report.

    Raises:
        InputError: An input cannot be read or lacks a column, or the folder belongs to another job.
        FailedPartsError: Some parts have no results.
    """
    workers = LocalWorker() if workers is None else workers
    with workers.connected():
        plan = BulkPlan.of(job, workers.device(job.device))
        with job_folder(plan):
            report = _run(plan, workers, mark_faulty, progress)
    if report.failures:
        raise FailedPartsError(report)
    return report


def _run(plan: BulkPlan, workers: Workers, mark_faulty: bool, progress: Progress | None) -> BulkReport:
    report, waiting = BulkReport(plan.problem_count, len(plan.parts), plan.passed_over), []
    for part in plan.parts:
        counts = finished_counts(plan, part)
        if counts is None:
            waiting.append(part)
        else:
            report.count(counts)
    report.resumed_parts = len(plan.parts) - len(waiting)
    over, under_way = report.done, 0

    def report_progress(solved: int = 0) -> None:
        nonlocal under_way
        under_way += solved
        if progress is not None:
            progress(over + under_way, plan.problem_count)

    report_progress()
    if not waiting:
        return report
    reports = workers.run(plan, waiting, mark_faulty=mark_faulty, solved=report_progress)
    started = time.perf_counter()
    for made in reports:
        report.add(made)
        over, under_way = over + plan.parts[made.number].row_count, 0
        report_progress()
    report.wall_s = time.perf_counter() - started
    return report
