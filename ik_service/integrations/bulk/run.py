"""Running a bulk job: workers with a solver each solve the parts without results, here or on a Ray cluster.

IKError
└── FailedPartsError   some parts of a bulk job have no results; carries the report on all
"""

import logging
import pickle
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.errors import EngineError
from ik_service.extras import how_to_install
from ik_service.ik_solver import IKSolver
from ik_service.integrations.bulk.job import BulkJob, BulkPlan, InputFile, Part, open_targets
from ik_service.integrations.bulk.results import columns_of, finished_counts, open_folder, write_part
from ik_service.integrations.bulk.targets import Columns, faulty_rows
from ik_service.solver.construction import resolve_device
from ik_service.solver.lm.status import STATUS_WORDS, IKStatus
from objectives.errors import IKError, InputError

SOLVED_AT_ONCE = 1 << 16
INVALID = {"status": IKStatus.INVALID, "seed_index": -1}  # in a faulty problem; in other columns NaN or 0
NAMED_FAILURES = 5
RETRIES = 3  # of a part whose worker on Ray has died
CLUSTER_CONNECT_S = 10.0  # Ray itself would try for minutes
STORE_BYTES = 128 * 2**20  # store of a local cluster; no arrays pass through the store
Progress = Callable[[int, int], None]  # called with the number of finished problems and of all problems of the job


@dataclass
class BulkReport:
    """A report on a job, or on one part of a job.

    Attributes:
        problem_count: Number of its problems.
        part_count: Number of its parts.
        passed_over: Known columns of the files, left unread.
        resumed_parts: Parts finished by an earlier run.
        status_counts: Number of problems by name of status.
        failures: Reasons of failed parts, by number of the part.
        worker_s: Time of this run to read, solve and write, summed over workers [s].
    """

    problem_count: int
    part_count: int = 1
    passed_over: tuple[str, ...] = ()
    resumed_parts: int = 0
    status_counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATUS_WORDS, 0))
    failures: dict[int, str] = field(default_factory=dict)
    worker_s: float = 0.0

    @property
    def solved(self) -> int:
        """Problems with success."""
        return self.status_counts["converged"]

    @property
    def done(self) -> int:
        """Number of problems with a result."""
        return sum(self.status_counts.values())

    def add(self, part: "BulkReport") -> None:
        """Add the report on a part."""
        self.status_counts = {word: count + part.status_counts[word] for word, count in self.status_counts.items()}
        self.failures |= part.failures
        self.resumed_parts += part.resumed_parts
        self.worker_s += part.worker_s


class FailedPartsError(IKError):
    """Some parts of a bulk job have no results; `report` is the report on all."""

    def __init__(self, report: BulkReport) -> None:
        self.report = report
        reasons = list(dict.fromkeys(report.failures[number] for number in sorted(report.failures)))
        more = f" (and {len(reasons) - NAMED_FAILURES} more reasons)" if len(reasons) > NAMED_FAILURES else ""
        said = f"{len(report.failures)} of {report.part_count} parts failed; the others have their results."
        super().__init__(f"{said} {' '.join(reasons[:NAMED_FAILURES])}{more}")


def solve_job(
    job: BulkJob,
    workers: "LocalWorker | RayWorkers | None" = None,
    *,
    mark_faulty: bool = False,
    progress: Progress | None = None,
) -> BulkReport:
    """Solve a bulk job, or resume an interrupted one, and report on it.

    Args:
        job: The job.
        workers: The workers; None is one worker in this process.
        mark_faulty: Whether problems with forbidden numbers get the status `invalid`; otherwise their parts fail. A
            resumed job may change this value.
        progress: Called at the start and after each part.

    Raises:
        InputError: An input cannot be read or lacks a column, or the folder belongs to another job.
        EngineError: There is no Ray cluster, or none with a device for a worker.
        FailedPartsError: Some parts have no results.
    """
    workers, waiting = workers or LocalWorker(), list[Part]()
    tell = progress or (lambda done, total: None)
    with workers.connected(job.device) as device:
        plan = BulkPlan.of(job, device)
        report = BulkReport(plan.problem_count, len(plan.parts), plan.passed_over)
        with open_folder(plan):
            for part in plan.parts:
                counts = finished_counts(plan, part)
                if counts is None:
                    waiting.append(part)
                else:
                    report.add(_report(part, counts, resumed_parts=1))
            over = report.done
            tell(over, plan.problem_count)
            for made in workers.run(plan, waiting, mark_faulty) if waiting else ():
                report.add(made)
                over += made.problem_count
                tell(over, plan.problem_count)
    if report.failures:
        raise FailedPartsError(report)
    return report


def _report(part: Part, counts: Sequence[int], **given: Any) -> BulkReport:
    return BulkReport(part.row_count, status_counts=dict(zip(STATUS_WORDS, counts, strict=True)), **given)


def _failed(part: Part, why: str) -> BulkReport:
    return BulkReport(part.row_count, failures={part.number: why})


class LocalWorker:
    """One worker in this process.

    Args:
        threads: Threads of its solver on a CPU; None is one. Results do not depend on them.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        self._threads = threads

    @contextmanager
    def connected(self, device: str) -> Iterator[str]:
        """Yield the device of a solver on this machine."""
        yield str(resolve_device(device))

    def run(self, plan: BulkPlan, parts: Sequence[Part], mark_faulty: bool) -> Iterator[BulkReport]:
        """Solve the parts one after the other."""
        return map(PartWorker(plan, mark_faulty, self._threads).solve_part, parts)


class RayWorkers:
    """Workers on a Ray cluster with one device each: a core, or a GPU.

    The files of targets and the folder of results must have the same paths on all machines.

    Args:
        address: "local" starts a cluster on this machine for the job; "auto" joins the cluster on this machine or in
            RAY_ADDRESS; or the address of a cluster. A cluster already joined by this process takes precedence.
        count: Workers at most; None is one for each free core, or GPU.

    Raises:
        InputError: The count is not allowed, or Ray is not installed.
    """

    def __init__(self, address: str = "auto", *, count: int | None = None) -> None:
        if count is not None and count < 1:
            raise InputError(f"count is {count!r}. Allowed: a whole number of at least 1, or None.")
        try:
            import ray
        except ModuleNotFoundError as error:
            raise InputError(f"Workers on a cluster need Ray. {how_to_install('ray')}") from error
        self._ray, self._address, self._count = ray, address, count

    @contextmanager
    def connected(self, device: str) -> Iterator[str]:
        """Join or start the cluster and yield the device of its workers; leave or end the cluster afterwards.

        Raises:
            EngineError: There is no cluster at the address, or no such device in it.
            InputError: The device is not "auto", "cpu" or "cuda".
        """
        if device not in ("auto", "cpu", "cuda"):
            raise InputError(f"device is {device!r}. On Ray: auto, cpu, cuda; each worker has one GPU to itself.")
        joined = self._ray.is_initialized()
        if not joined:
            self._join()
        try:
            found = self._ray.cluster_resources()
            device = {"auto": "cuda" if found.get("GPU", 0.0) >= 1.0 else "cpu"}.get(device, device)
            if found.get("GPU" if device == "cuda" else "CPU", 0.0) < 1.0:
                raise EngineError(f"The Ray cluster has no device {device}, so no worker can start.")
            yield device
        finally:
            if not joined:
                self._ray.shutdown()

    def _join(self) -> None:
        local = {"include_dashboard": False, "num_cpus": self._count, "object_store_memory": STORE_BYTES}
        given: dict[str, Any] = local if self._address == "local" else {}
        host, colon, port = self._address.rpartition("://")[2].rpartition(":")
        try:
            if colon:
                socket.create_connection((host, int(port)), CLUSTER_CONNECT_S).close()
            self._ray.init(self._address, logging_level=logging.WARNING, log_to_driver=False, **given)
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).rstrip(".")
            raise EngineError(f"No Ray cluster at '{self._address}': {reason}. 'local' starts one.") from error

    def run(self, plan: BulkPlan, parts: Sequence[Part], mark_faulty: bool) -> Iterator[BulkReport]:
        """Solve the parts in any order, each in a separate Ray task; Ray repeats the task of a dead worker."""
        ray, gpus = self._ray, int(plan.device == "cuda")
        count = self._count or max(1, int(ray.available_resources().get("GPU" if gpus else "CPU", 1.0)))
        # Without max_calls=0 a process with a GPU ends after each part, and its solver with it.
        task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES, max_calls=0)(_solve_on_ray)
        shared = ray.put(pickle.dumps((replace(plan), mark_faulty)))  # without cached properties
        waiting, running = list(reversed(parts)), dict[Any, Part]()
        while waiting or running:
            while waiting and len(running) < count:
                part = waiting.pop()
                running[task.remote(shared, plan.digest, part)] = part
            done = ray.wait(list(running))[0][0]
            part = running.pop(done)
            try:
                yield ray.get(done)
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError):
                rows = f"rows {part.first_row} to {part.first_row + part.row_count - 1}"
                yield _failed(part, f"'{part.file.path}' {rows}: the worker died each time. Ray's log says why.")


def _solve_on_ray(shared: bytes, digest: str, part: Part) -> BulkReport:
    try:
        return _ray_worker(shared, digest).solve_part(part)
    except IKError as error:  # no solver can be made there
        return _failed(part, str(error))


@lru_cache(maxsize=1)
def _ray_worker(shared: bytes, digest: str) -> "PartWorker":
    """The worker of a process of the cluster; Ray keeps the process from part to part."""
    plan, mark_faulty = pickle.loads(shared)
    if plan.digest != digest:
        raise EngineError(f"{socket.gethostname()} has ik-service {version('ik-service')}, the job another version.")
    wp.config.log_level = wp.LOG_WARNING
    return PartWorker(plan, mark_faulty)


class PartWorker:
    """Solves parts, one after the other, with one solver on one device."""

    def __init__(self, plan: BulkPlan, mark_faulty: bool = False, threads: int | None = None) -> None:
        self._plan, self._mark_faulty = plan, mark_faulty
        self._file: Any = None  # of the part before
        job, targets = plan.job, plan.job.checked_targets
        self._solver = IKSolver(job.robot, targets, device=plan.device, threads=threads, options=job.options)
        poses = {"positions": np.zeros(3), "orientations_xyzw": np.array([0.0, 0.0, 0.0, 1.0])}
        one = {name: np.tile(pose, (1, len(targets), 1)) for name, pose in poses.items() if name in plan.shapes}
        self._columns = self._answer(one)  # a first solve compiles kernels, and gives types and shapes of columns

    def solve_part(self, part: Part) -> BulkReport:
        """Solve a part and write its results; the report has the reason of a failure."""
        started = time.perf_counter()
        try:
            arrays = self._solve(part, self._read(part))
            counts: list[int] = np.bincount(arrays["status"], minlength=len(STATUS_WORDS)).tolist()
            write_part(self._plan, part, arrays, counts)
        except (InputError, EngineError) as error:
            return _failed(part, str(error))
        except OSError as error:
            where = error.filename or self._plan.part_path(part)
            return _failed(part, f"{socket.gethostname()}: '{where}': {error.strerror or error}.")
        return _report(part, counts, worker_s=time.perf_counter() - started)

    def _read(self, part: Part) -> Columns:
        if self._file is None or self._file.path != part.file.path:
            self._file = open_targets(part.file.path)
            self._file.check(self._plan.shapes)
        columns: Columns = self._file.read(part.first_row, part.row_count)
        if InputFile.of(part.file.path, part.file.rows) != part.file:  # the columns may have values of meanwhile
            raise InputError(f"'{part.file.path}' has changed while the job was running. Begin a new one.")
        return columns

    def _solve(self, part: Part, columns: Columns) -> dict[str, NDArray[Any]]:
        arrays = {"problem": np.arange(part.first_problem, part.first_problem + part.row_count, dtype=np.int64)}
        for name, one in self._columns.items():  # all is invalid until there is an answer
            nothing = INVALID.get(name, np.nan if one.dtype.kind == "f" else 0)
            arrays[name] = np.full((part.row_count, *one.shape[1:]), nothing, one.dtype)
        for begin in range(0, part.row_count, SOLVED_AT_ONCE):
            given = {name: array[begin : begin + SOLVED_AT_ONCE] for name, array in columns.items()}
            rows = np.arange(begin, min(begin + SOLVED_AT_ONCE, part.row_count))
            try:
                found = self._answer(given)
            except InputError as error:
                faulty = faulty_rows(self._plan.job.robot, given)
                if not faulty.any():  # not the fault of a row
                    raise
                if not self._mark_faulty:
                    raise self._row_error(part, begin + int(np.argmax(faulty)), columns) from error
                rows, given = rows[~faulty], {name: array[~faulty] for name, array in given.items()}
                found = self._answer(given) if len(rows) else {}
            for name, values in found.items():
                arrays[name][rows] = values
        return arrays

    def _answer(self, given: Columns) -> dict[str, NDArray[Any]]:
        poses = given.get("positions"), given.get("orientations_xyzw")
        return columns_of(self._solver.solve(*poses, initial_joint_q=given.get("initial_joint_q")))

    def _row_error(self, part: Part, row: int, columns: Columns) -> InputError:
        """The error of a row of a part, with the file and the row in the file."""
        why = "it holds a number that is not allowed."
        try:
            self._answer({name: array[row : row + 1] for name, array in columns.items()})
        except InputError as error:
            why = str(error)
        if " is nan" in why and part.file.path.endswith(".parquet"):
            why += " What is missing in Parquet, and a list of another length, is read as nan."
        return InputError(f"'{part.file.path}' row {part.first_row + row}: {why}")
