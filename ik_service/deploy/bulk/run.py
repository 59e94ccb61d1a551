"""Running a bulk job: what is not finished goes to workers; what they say is counted."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from ik_service.deploy.bulk.job import BulkJob
from ik_service.deploy.bulk.outputs.job_folder import job_folder
from ik_service.deploy.bulk.outputs.part_files import finished_counts
from ik_service.deploy.bulk.parts import Part
from ik_service.deploy.bulk.plan import BulkPlan
from ik_service.deploy.bulk.report import BulkReport, FailedPartsError, PartReport
from ik_service.deploy.bulk.worker import PartWorker, Solved, untold
from ik_service.solver.construction import resolve_device

Progress = Callable[[int, int], None]
"""Told again and again: problems that are done with, and all of the job."""


class Workers(Protocol):
    """Who makes parts."""

    def connected(self) -> AbstractContextManager[object]:
        """Have the workers' machines at hand for as long as the job runs."""

    def device(self, asked: str) -> str:
        """Return what a worker solves on, "auto" settled."""

    def run(
        self, plan: BulkPlan, parts: Sequence[Part], *, mark_faulty: bool, solved: Solved = untold
    ) -> Iterator[PartReport]:
        """Make parts, in any order; give a report on each, and maybe tell how far the one under way is."""


class LocalWorker:
    """One worker in this process.

    Args:
        threads: Threads of its solver on a CPU; None is one. Results do not depend on it.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        self._threads = threads

    def connected(self) -> AbstractContextManager[object]:
        """Nothing is needed."""
        return nullcontext()

    def device(self, asked: str) -> str:
        """Return the device of this machine that a solver takes."""
        return str(resolve_device(asked))

    def run(
        self, plan: BulkPlan, parts: Sequence[Part], *, mark_faulty: bool, solved: Solved = untold
    ) -> Iterator[PartReport]:
        """Make the parts one after the other."""
        worker = PartWorker(plan, mark_faulty=mark_faulty, threads=self._threads, solved=solved)
        return map(worker.solve_part, parts)


def solve_job(
    job: BulkJob, workers: Workers | None = None, *, mark_faulty: bool = False, progress: Progress | None = None
) -> BulkReport:
    """Solve a bulk job, or go on with it where an earlier run has ended.

    Args:
        job: The job.
        workers: Who solves; None is one worker in this process.
        mark_faulty: Whether problems with numbers that are not allowed get the status `invalid`; else their parts fail.
            Either may be chosen anew when a job is gone on with.
        progress: Told how far it is.

    Returns:
        What became of it.

    Raises:
        InputError: An input cannot be read or lacks a column, or the folder belongs to another job.
        FailedPartsError: Parts have no results; all others have.
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

    def tell(solved: int = 0) -> None:
        nonlocal under_way
        under_way += solved
        if progress is not None:
            progress(over + under_way, plan.problem_count)

    tell()
    if not waiting:
        return report
    reports = workers.run(plan, waiting, mark_faulty=mark_faulty, solved=tell)
    started = time.perf_counter()
    for made in reports:
        report.add(made)
        over, under_way = over + plan.parts[made.number].row_count, 0
        tell()
    report.wall_s = time.perf_counter() - started
    return report
