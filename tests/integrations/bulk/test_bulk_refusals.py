"""Bulk jobs: which jobs and folders are refused, and why."""

import fcntl
import json
import os

import numpy as np
import pytest

from ik_service import SolverOptions, Target, load_robot
from ik_service.errors import IKError
from ik_service.integrations.bulk import BulkJob, FailedPartsError, LocalWorker
from ik_service.integrations.bulk import job as job_module
from ik_service.integrations.bulk import run as run_module
from objectives import InputError, UnknownNameError
from tests.integrations.bulk.bulk_files import LINK, part_bytes, refused, rows, solve, write_targets

SHORT = 30


@pytest.fixture
def targets(columns, tmp_path):
    return write_targets(tmp_path / "t.npz", rows(columns, slice(SHORT)))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results"


OTHER_JOBS = {
    "options": (lambda: {"options": SolverOptions(seeds=3)}, "options.seeds is None there and 3 here"),
    "robot": (lambda: {"robot": load_robot("panda").lock({"panda_joint7": 0.5})}, "robot.content is"),
    "target": (lambda: {"targets": ["panda_link8"]}, "'panda_hand' there and 'panda_link8' here"),
    "offset": (lambda: {"targets": [Target(LINK, offset=[0, 0, 1, 0, 0, 0, 1])]}, r"offset is None there and \[0.0"),
    "parts": (lambda: {"part_rows": 7}, "part_rows is 100 there and 7 here"),
    "format": (lambda: {"format": "npz"}, "format is 'parquet' there and 'npz' here"),
    "columns": (lambda: {"columns": ["positions"]}, "columns is"),
}


def test_a_folder_of_another_job_is_refused(targets, folder):
    solve(targets, folder)
    before = part_bytes(folder)
    for change, message in OTHER_JOBS.values():
        refused(rf"holds results of another job: .*{message}", targets, folder, **change())
    assert part_bytes(folder) == before


def test_a_folder_made_from_other_files_or_by_another_version_is_refused(targets, folder, monkeypatch):
    solve(targets, folder)
    with monkeypatch.context() as patch:
        patch.setattr(job_module, "version", lambda package: f"0 of {package}")
        refused(r"another job: version is .* there and '0 of ik-service' here\.", targets, folder)
    os.utime(targets, ns=(0, 0))
    refused(r"another job: inputs\[0\].modified_ns is \d+ there and 0 here", targets, folder)
    for damaged in ("{", "[1]", "[[1, 2]]", "null", '"columns"', "\xff"):
        (folder / "_job.json").write_text(damaged, encoding="latin-1")
        refused(r"another job: columns is None there and \['positions', .*, and \d+ more\. Give", targets, folder)


def test_another_file_of_the_same_name_size_and_time_is_another_input(columns, tmp_path, folder):
    paths = []
    for k in range(2):
        (tmp_path / str(k)).mkdir()
        rolled = columns | {"positions": np.roll(columns["positions"], k, axis=0)}
        paths.append(write_targets(tmp_path / str(k) / "t.npz", rolled))
        os.utime(paths[-1], ns=(0, 0))
    assert paths[0].stat().st_size == paths[1].stat().st_size
    solve(paths, folder)
    refused(r"another job: inputs\[0\].ends is '\w+' there", paths[::-1], folder)


@pytest.mark.parametrize("kind", ["parquet", "npz"])
def test_results_of_another_place_or_job_are_not_taken_for_those_of_this(targets, tmp_path, folder, kind):
    given = {"format": kind, "part_rows": 10}
    solve(targets, folder, **given)
    whole = part_bytes(folder)
    paths = [folder / name for name in sorted(whole)]
    paths[1].write_bytes(paths[0].read_bytes())
    refused(rf"'{paths[1]}' holds results of part 0 of this job", targets, folder, **given)
    solve(targets, tmp_path / "other", options=SolverOptions(random_seed=1), **given)
    paths[1].write_bytes((tmp_path / "other" / paths[1].name).read_bytes())
    refused(rf"'{paths[1]}' holds results of another job", targets, folder, **given)
    paths[1].unlink()
    assert solve(targets, folder, **given).resumed_parts == len(paths) - 1
    assert part_bytes(folder) == whole


def test_a_folder_with_other_files_or_another_process_is_refused(targets, tmp_path, folder):
    refused(r"holds 't.npz' and no bulk job", targets, tmp_path)
    refused(r"Cannot use .* for results", targets, targets)
    folder.mkdir()
    with open(folder / "_lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused("Another process is at work", targets, folder)
    (folder / "._job.json").write_text('{"inp')  # of one that was killed while it wrote this
    assert solve(targets, folder).done == SHORT
    assert json.loads((folder / "_job.json").read_text())["inputs[0].rows"] == SHORT


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"format": "csv"}, InputError, "format is 'csv'. Allowed: parquet, npz"),
        ({"part_rows": 0}, InputError, "part_rows is 0. Allowed: a whole number of at least 1"),
        ({"part_rows": 1.5}, InputError, "part_rows is 1.5"),
        ({"targets": []}, InputError, "targets is"),
        ({"targets": "panda_hand"}, InputError, "Allowed: a list of link names"),
        ({"targets": ["nose"]}, UnknownNameError, "nose"),
        ({"targets": [Target(LINK, row_weights=np.ones((2, 6)))]}, InputError, "data per problem"),
        ({"options": SolverOptions(solutions=2)}, InputError, "solutions is above 1"),
        ({"device": "abacus"}, InputError, "abacus"),
    ],
)
def test_wrong_jobs_are_refused_before_a_folder_is_made(targets, folder, options, error, message):
    refused(message, targets, folder, error, **options)
    assert not folder.exists()


def test_inputs_that_are_no_list_of_files_and_a_worker_without_threads_are_refused(targets, folder):
    for inputs in ([], (), str(targets), targets, bytes(targets)):
        with pytest.raises(InputError, match=r"inputs is .*\. Allowed: a list of files\."):
            BulkJob(robot=load_robot("panda"), targets=[LINK], inputs=inputs, output=folder)
    refused("threads", targets, folder, IKError, workers=LocalWorker(threads=0))


def test_a_disk_that_does_not_take_results_fails_the_part(targets, folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_module, "write_part", full)
    refused(r"part-000000.parquet': No space left", targets, folder, FailedPartsError)
    assert part_bytes(folder) == {}


def test_more_parts_than_their_names_can_order_are_refused_before_anything_is_solved(targets, folder, monkeypatch):
    monkeypatch.setattr(job_module, "PARTS_MAX", 3)
    refused(r"has 4 parts at part_rows 20\. Allowed: 3\. Give larger", [targets, targets], folder, part_rows=20)
    assert not folder.exists()
    assert solve([targets, targets], folder, part_rows=30).part_count == 2


def test_options_may_be_scalars_of_numpy(targets, folder):
    solve(targets, folder, options=SolverOptions(seeds=np.int64(8), position_tolerance=np.float32(0.125)))
    plain = SolverOptions(seeds=8, position_tolerance=0.125)
    assert solve(targets, folder, options=plain).resumed_parts == 1
