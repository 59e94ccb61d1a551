"""`ik-service solve` into a folder: bulk jobs, in this process or on a Ray cluster."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ik_service.cli.console import message_console, progress_bar
from ik_service.cli.default_links import default_links
from ik_service.cli.solve_command import Job
from ik_service.cli.solve_files import SUFFIXES
from ik_service.integrations.bulk import BulkJob, BulkReport, LocalWorker, RayWorkers, solve_job
from ik_service.integrations.bulk.job import FORMATS, PART_ROWS
from ik_service.integrations.bulk.run import Progress
from ik_service.robots import load_robot
from ik_service.solver.given.options import SolverOptions
from objectives.errors import InputError

LINE_EVERY_S = 10.0  # time between two lines about progress where there is no terminal for a bar


@dataclass(frozen=True)
class BulkOptions:
    """Options of bulk jobs only."""

    ray: str | None = None  # address of a Ray cluster, "auto", "local", or None for this process
    workers: int | None = None  # most workers on Ray, or threads of this process
    result_format: str | None = None  # "parquet", "npz", or None for the first
    columns: tuple[str, ...] = ()  # columns to read; empty for all known columns of the file
    part_rows: int = PART_ROWS  # most problems of a part
    mark_faulty: bool = False  # whether faulty problems are marked


def is_bulk(targets: Sequence[Path], output: Path | None, options: BulkOptions) -> bool:
    """Return whether the command is a bulk job, by input files, output folder, or options of bulk jobs."""
    large = len(targets) > 1 or any(path.suffix == ".parquet" for path in targets)
    return large or (output is not None and not output.suffix) or options != BulkOptions()


def solve_bulk(job: Job, targets: Sequence[Path], output: Path | None, options: BulkOptions) -> bool:
    """Solve files of targets into a folder; return whether any problem was solved. Errors are those of `solve_job`."""
    if output is None or output.suffix in (*SUFFIXES, ".parquet"):
        found = "none" if output is None else repr(str(output))
        raise InputError(f"The output is {found}. A bulk job writes into a folder: give --output FOLDER.")
    if options.result_format not in (None, *FORMATS):
        raise InputError(f"--format is {options.result_format!r}. Allowed: {', '.join(FORMATS)}.")
    robot = load_robot(job.robot)
    links = default_links(robot, job.links)
    bulk = BulkJob(
        robot=robot,
        targets=links,
        inputs=targets,
        output=output,
        options=SolverOptions().merged(dict(job.options)),
        device=job.device,
        format="npz" if options.result_format == "npz" else "parquet",
        columns=options.columns or None,
        part_rows=options.part_rows,
    )
    here = LocalWorker(threads=options.workers)
    workers = here if options.ray is None else RayWorkers(options.ray, count=options.workers)
    started = time.perf_counter()
    with reported_progress() as progress:
        report = solve_job(bulk, workers, mark_faulty=options.mark_faulty, progress=progress)
    console = message_console()
    for line in lines_of(report, links, output, time.perf_counter() - started):
        console.print(line, markup=False)
    return report.solved > 0


@contextmanager
def reported_progress() -> Iterator[Progress]:
    """Show progress: a bar on a terminal, else a line from time to time."""
    console, last_line = message_console(), time.perf_counter()

    def tell_line(done: int, total: int) -> None:
        nonlocal last_line
        if time.perf_counter() - last_line > LINE_EVERY_S and done < total:
            last_line = time.perf_counter()
            console.print(f"{done} of {total} problems ({100 * done / total:.1f} %)", markup=False)

    with progress_bar("Solving", 1) as bar:
        yield (lambda done, total: bar(completed=done, total=total)) if console.is_terminal else tell_line


def lines_of(report: BulkReport, links: Sequence[str], output: Path, seconds: float) -> list[str]:
    """Return the summary lines of a job."""
    reached, parts = ", ".join(links), f"{report.part_count} part{'s' * (report.part_count != 1)}"
    before = f", {report.resumed_parts} of them from before" if report.resumed_parts else ""
    lines = [f"{report.solved} of {report.done} solved for {reached} in {seconds:.3g} s, {parts} in {output}{before}."]
    for name in report.passed_over:
        lines.append(f"Column '{name}' is not read: row k of the files is problem k of the results.")
    others = [f"{word} {count}" for word, count in report.status_counts.items() if count and word != "converged"]
    return [*lines, f"Without success: {', '.join(others)}."] if others else lines
