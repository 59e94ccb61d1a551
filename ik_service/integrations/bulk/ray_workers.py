"""Workers on a Ray cluster: Ray Data passes parts to actors with a solver each, which return their reports."""

import json
import logging
import socket
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import ray
import ray.data
import warp as wp
from ray.util.annotations import RayDeprecationWarning

from ik_service.errors import EngineError
from ik_service.integrations.bulk.parts import Part
from ik_service.integrations.bulk.plan import BulkPlan
from ik_service.integrations.bulk.report import PartReport
from ik_service.integrations.bulk.worker import PartWorker, ProgressCallback, ignore_progress
from objectives.errors import IKError, InputError

PARTS_PER_WORKER = (2, 1)
"""Parts that a worker has at once in the first and in the second run. All of them are lost when it dies; the second run
repeats them one at a time."""
RETRIES = 1  # of a part whose worker has died, in each run
CLUSTER_CONNECT_S = 10.0
STORE_BYTES = 128 * 2**20  # of a local cluster; no arrays pass through it
LOG_LEVELS = {"ray.data": logging.WARNING, "ray.data._internal.progress": logging.ERROR}
"""Ray Data logs every start and end, and warns that its own progress bar is off."""


def check_reachable(address: str) -> None:
    """Check that something listens at an address; Ray itself would try for minutes.

    Args:
        address: "auto", "local", or host:port, with or without a scheme.

    Raises:
        EngineError: Nothing listens there.
    """
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host, int(port)), CLUSTER_CONNECT_S).close()
    except (OSError, ValueError) as error:
        raise EngineError(f"No Ray cluster at '{address}': {error}. 'local' starts one.") from error


class RayWorkers:
    """Workers on a Ray cluster with one device each: a core, or a GPU.

    The files of targets and the folder of results must have the same paths on all machines.

    Args:
        address: "local" starts a cluster on this machine for the job; "auto" joins the one on this machine or in
            RAY_ADDRESS; or the address of a cluster. If this process has already joined a cluster, that one is used.
        count: Workers at most; None is one for each free core, or GPU.
    """

    def __init__(self, address: str = "auto", *, count: int | None = None) -> None:
        if count is not None and count < 1:
            raise InputError(f"count is {count!r}. Allowed: a whole number of at least 1, or None.")
        self._address, self._count = address, count

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Join or start the cluster, and leave or end it afterwards.

        Raises:
            EngineError: There is no cluster at the address.
        """
        if ray.is_initialized():
            yield
            return
        check_reachable(self._address)
        local: dict[str, Any] = {
            "include_dashboard": False,
            "num_cpus": self._count,
            "object_store_memory": STORE_BYTES,
        }
        try:
            ray.init(
                self._address,
                logging_level=logging.WARNING,
                log_to_driver=False,
                **(local if self._address == "local" else {}),
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).rstrip(".")
            raise EngineError(f"No Ray cluster at '{self._address}': {reason}. 'local' starts one.") from error
        try:
            yield
        finally:
            ray.shutdown()

    def device(self, asked: str) -> str:
        """Return "cuda" for "auto" where the cluster has GPUs, else "cpu"."""
        if asked == "auto":
            return "cuda" if ray.cluster_resources().get("GPU", 0.0) >= 1.0 else "cpu"
        if asked not in ("cpu", "cuda"):
            raise InputError(f"device is {asked!r}. On Ray: auto, cpu, cuda; each worker has one GPU to itself.")
        return asked

    def run(
        self, plan: BulkPlan, parts: Sequence[Part], *, mark_faulty: bool, solved: ProgressCallback = ignore_progress
    ) -> Iterator[PartReport]:
        """Solve the parts in any order; those whose workers died in each run are reported as failed."""
        lost = {part.number: part for part in parts}
        for in_flight in PARTS_PER_WORKER:
            if lost:
                for report in self._run_once(plan, list(lost.values()), in_flight, mark_faulty=mark_faulty):
                    del lost[report.number]
                    yield report
        for number, part in lost.items():
            rows = f"rows {part.first_row} to {part.first_row + part.row_count - 1}"
            why = f"'{plan.inputs[part.file].path}' {rows}: the worker died each time. Ray's log says why."
            yield PartReport(number, failure=why)

    def _run_once(
        self, plan: BulkPlan, parts: Sequence[Part], in_flight: int, *, mark_faulty: bool
    ) -> Iterator[PartReport]:
        """Give a report on each part whose worker did not die."""
        for logger, level in LOG_LEVELS.items():
            logging.getLogger(logger).setLevel(level)
        resource = "GPU" if plan.device == "cuda" else "CPU"
        if ray.cluster_resources().get(resource, 0.0) < 1.0:
            raise EngineError(f"The Ray cluster has no {resource}, so no worker can start.")
        count = self._count or max(1, int(ray.available_resources().get(resource, 1.0)))
        pool = ray.data.ActorPoolStrategy(
            min_size=1,
            max_size=min(count, len(parts)),
            initial_size=min(count, len(parts)),
            max_tasks_in_flight_per_actor=in_flight,
        )
        described = ray.data.from_items([asdict(part) for part in parts], override_num_blocks=len(parts))
        with warnings.catch_warnings():
            # Ray Data has no other way to limit the retries of a part; its default has no limit.
            warnings.filterwarnings("ignore", "`ray_remote_args` is deprecated", RayDeprecationWarning)
            reports = described.map_batches(
                RayPartWorker,
                fn_constructor_kwargs={"plan": plan, "mark_faulty": mark_faulty},
                batch_size=1,
                compute=pool,
                num_cpus=1,
                num_gpus=1 if resource == "GPU" else None,
                max_restarts=-1,
                max_task_retries=RETRIES,
            )
        reports.context.enable_progress_bars = False
        reports.context.max_errored_blocks = len(parts)  # a lost part does not end the others
        for batch in reports.iter_batches(batch_size=None, prefetch_batches=0):
            for text in batch["report"]:
                yield PartReport(**json.loads(str(text)))


class RayPartWorker:
    """A worker that Ray Data calls.

    Args:
        plan: The plan of the job.
        mark_faulty: As for `PartWorker`.
    """

    def __init__(self, plan: BulkPlan, mark_faulty: bool) -> None:
        wp.config.log_level = wp.LOG_WARNING
        self._failure = ""
        try:
            self._worker = PartWorker(plan, mark_faulty=mark_faulty)
        except IKError as error:  # Ray would start one worker after another
            self._failure = str(error)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[str]]:
        """Solve the parts of a batch and return their reports."""
        rows = [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]
        parts = [Part(**{name: int(value) for name, value in row.items()}) for row in rows]
        return {"report": [json.dumps(asdict(self.solve(part))) for part in parts]}

    def solve(self, part: Part) -> PartReport:
        """Solve a part."""
        return PartReport(part.number, failure=self._failure) if self._failure else self._worker.solve_part(part)
