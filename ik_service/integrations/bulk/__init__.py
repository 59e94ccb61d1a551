"""Bulk jobs: files of millions of targets to files of results, in this process or on a Ray cluster, resumable.

    job (inputs, output, options) -> plan (parts: rows of a file) -> workers (one solver each): part -> file of results

A file of results gets its final name when complete, so an interrupted job can be resumed. Only Parquet needs pyarrow,
and only `RayWorkers` needs Ray.
"""

from ik_service.integrations.bulk.job import BulkJob
from ik_service.integrations.bulk.results import read_results
from ik_service.integrations.bulk.run import BulkReport, FailedPartsError, LocalWorker, RayWorkers, solve_job

__all__ = ["BulkJob", "BulkReport", "FailedPartsError", "LocalWorker", "RayWorkers", "read_results", "solve_job"]
