"""Bulk jobs: problems per second of one worker and of two on a Ray cluster of this machine.

Panda targets from files to files, on a quiet machine with two cores or more. It needs the extra `ray` and about 1 GB in
the folder for temporary files.
"""

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # nobody but this machine can reach the cluster

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray

import ik_service
from benchmarks.problems.pose_problems import PoseProblems
from benchmarks.report import Report
from benchmarks.run import benchmark
from ik_service.integrations.bulk import BulkJob, BulkReport, LocalWorker, RayWorkers, solve_job
from ik_service.integrations.bulk.job import PART_ROWS

LINK = "panda_hand"
SLICE = 1 << 18  # targets that are drawn at once
ROUNDS, BOUND = 3, 1.7


@dataclass(frozen=True)
class Run:
    """A job that was run."""

    report: BulkReport  # what became of it
    first_s: float  # time until its first part was there [s]
    rate: float  # problems per second once as many parts were there as it had workers


def show(report: Report, *, slices: int) -> None:
    """Measure and report."""
    report.line(f"{os.cpu_count()} cores, Ray {ray.__version__}. Random reachable Panda targets.")
    with tempfile.TemporaryDirectory(prefix="ik") as folder:
        inputs = write_inputs(Path(folder), slices)
        local = {kind: run(path, LocalWorker(), 1) for kind, path in inputs.items()}
        began = time.perf_counter()
        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=2**27)
        cluster_s = time.perf_counter() - began
        rounds = [[run(inputs[".parquet"], RayWorkers(count=count), count) for count in (1, 2)] for _ in range(ROUNDS)]
        ray.shutdown()
    _show_workers(report, local, rounds, slices * SLICE)
    _show_start(report, cluster_s, rounds, local)


def write_inputs(folder: Path, slices: int) -> dict[str, Path]:
    """Random reachable targets in float32, the same ones in a file of each kind."""
    robot, rng = ik_service.load_robot("panda", collision="ignore"), np.random.default_rng(0)
    drawn = [PoseProblems.of(robot, [LINK], robot.random_joint_q(rng, SLICE)).given for _ in range(slices)]
    parts = [np.concatenate([one[:, 0].astype(np.float32) for one in part]) for part in zip(*drawn, strict=True)]
    columns = dict(zip(("positions", "orientations_xyzw"), parts, strict=True))
    np.savez(folder / "targets.npz", **columns)
    lists = {
        name: pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])
        for name, array in columns.items()
    }
    pq.write_table(pa.table(lists), folder / "targets.parquet", row_group_size=1 << 20)
    return {kind: folder / f"targets{kind}" for kind in (".parquet", ".npz")}


def run(targets: Path, workers: LocalWorker | RayWorkers, count: int) -> Run:
    """Run a job with a number of workers, and remove its results."""
    marks: list[tuple[float, int]] = []
    robot, output = ik_service.load_robot("panda", collision="ignore"), targets.parent / "results"
    files = {"inputs": [targets], "output": output, "format": targets.suffix[1:]}
    job = BulkJob(robot=robot, targets=[LINK], device="cpu", **files)
    began = time.perf_counter()
    report = solve_job(job, workers, progress=lambda done, _: marks.append((time.perf_counter() - began, done)))
    shutil.rmtree(output)
    (begin_s, begin), (end_s, end) = marks[count], marks[-1]  # once each has made a part
    return Run(report, marks[1][0], (end - begin) / (end_s - begin_s))


def _show_workers(report: Report, local: dict[str, Run], rounds: list[list[Run]], count: int) -> None:
    report.section(
        "Workers",
        f"{count} targets from Parquet to Parquet, in parts of {PART_ROWS}; one core each, once each has made a part, "
        f"to the last. {ROUNDS} rounds of one worker and two in turn; the ratio is the median of theirs.",
        *("", "problems/s"),
    )
    ones, twos = ([both[which].rate for both in rounds] for which in (0, 1))
    report.row("in this process", f"{local['.parquet'].rate:.0f}")
    report.row("in this process, npz to npz", f"{local['.npz'].rate:.0f}")
    for name, rates in (("one worker on Ray", ones), ("two workers on Ray", twos)):
        report.row(name, f"{median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f})")
    ratio = median(two / one for one, two in zip(ones, twos, strict=True))
    solved = min(one.report.solved for both in rounds for one in both) / count
    report.claim("two workers over one", f"{ratio:.2f} times", f"{BOUND}", ratio >= BOUND)
    report.claim("solved in every run", f"{100 * solved:.2f} %", "99.9 %", solved >= 0.999)


def _show_start(report: Report, cluster_s: float, rounds: list[list[Run]], local: dict[str, Run]) -> None:
    report.section("Start", "Not in the rates above; kernels are in the cache.", "", "[s]")
    report.row("starting a cluster on this machine", f"{cluster_s:.1f}")
    for name, which in (("one worker", 0), ("two workers", 1)):
        report.row(f"to the first part, {name} on Ray", f"{median(both[which].first_s for both in rounds):.1f}")
    report.row("to the first part, in this process", f"{local['.parquet'].first_s:.2f}")


if __name__ == "__main__":
    benchmark("Bulk jobs", show, sizes={"slices": 32}, core=None, is_strict=True)
