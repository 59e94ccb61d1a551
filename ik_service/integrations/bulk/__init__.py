"""Bulk jobs: files of millions of targets to files of results, in this process or on a Ray cluster, resumable.

    job (inputs, output, options) -> plan (parts: rows of a file) -> workers (one solver each): part -> file of results

A file of results gets its final name when it is complete, so an interrupted job can be resumed. Only `ray_workers`
imports Ray; pyarrow is needed for Parquet alone.
"""

from typing import TYPE_CHECKING, Any

from ik_service.integrations.bulk.job import BulkJob
from ik_service.integrations.bulk.part_files import read_results
from ik_service.integrations.bulk.report import BulkReport, FailedPartsError
from ik_service.integrations.bulk.run import LocalWorker, solve_job

if TYPE_CHECKING:
    from ik_service.integrations.bulk.ray_workers import RayWorkers

__all__ = ["BulkJob", "BulkReport", "FailedPartsError", "LocalWorker", "RayWorkers", "read_results", "solve_job"]


def __getattr__(name: str) -> Any:
    """Load what needs Ray on first use."""
    if name != "RayWorkers":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ik_service.integrations.bulk.ray_workers import RayWorkers

    return RayWorkers
