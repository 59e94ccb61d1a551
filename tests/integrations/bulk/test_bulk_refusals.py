"""Bulk jobs: which jobs and folders are refused, and why."""

import fcntl
import json
import os

import numpy as np
import pytest

from ik_service import SolverOptions, Target, load_robot
from ik_service.errors import IKError
from ik_service.integrations.bulk import FailedPartsError, LocalWorker, solve_job
from ik_service.integrations.bulk import job as job_module
from ik_service.integrations.bulk import run as run_module
from objectives import InputError, UnknownNameError
from tests.integrations.bulk.bulk_files import LINK, panda_job, part_bytes, random_columns, write_targets

SHORT = 30


@pytest.fixture
def targets(tmp_path):
    return write_targets(tmp_path / "t.npz", random_columns(load_robot("panda"), [LINK], SHORT))


OTHER_JOBS = {
    "options": (lambda: {"options": SolverOptions(seeds=3)}, "options.seeds is None there and 3 here"),
    "robot": (lambda: {"robot": load_robot("panda").lock({"panda_joint7": 0.5})}, "robot.content is"),
    "target": (lambda: {"targets": ["panda_link8"]}, "'panda_hand' there and 'panda_link8' here"),
    "offset": (lambda: {"targets": [Target(LINK, offset=[0, 0, 1, 0, 0, 0, 1])]}, r"offset is None there and \[0.0"),
    "parts": (lambda: {"part_rows": 7}, "part_rows is 100 there and 7 here"),
    "format": (lambda: {"format": "npz"}, "format is 'parquet' there and 'npz' here"),
    "columns": (lambda: {"columns": ["positions"]}, "columns is"),
}


@pytest.mark.parametrize("case", OTHER_JOBS)
def test_a_folder_of_another_job_is_refused(targets, tmp_path, case):
    change, message = OTHER_JOBS[case]
    solve_job(panda_job([targets], tmp_path / "results"))
    before = part_bytes(tmp_path / "results")
    with pytest.raises(InputError, match=rf"holds results of another job: .*{message}"):
        solve_job(panda_job([targets], tmp_path / "results", **change()))
    assert part_bytes(tmp_path / "results") == before


def test_a_folder_made_from_other_files_or_by_another_version_is_refused(targets, tmp_path, monkeypatch):
    job = panda_job([targets], tmp_path / "results")
    solve_job(job)
    with monkeypatch.context() as patch:
        patch.setattr(job_module, "version", lambda package: f"0 of {package}")
        with pytest.raises(InputError, match=r"another job: version is .* there and '0 of ik-service' here\."):
            solve_job(job)
    os.utime(targets, ns=(0, 0))
    with pytest.raises(InputError, match=r"another job: inputs\[0\].modified_ns is \d+ there and 0 here"):
        solve_job(job)
    (tmp_path / "results" / "_job.json").write_text("{")
    with pytest.raises(InputError, match=r"another job: columns is None there"):
        solve_job(job)


def test_another_file_of_the_same_name_size_and_time_is_another_input(tmp_path):
    paths = []
    for k in range(2):
        (tmp_path / str(k)).mkdir()
        columns = random_columns(load_robot("panda"), [LINK], SHORT)
        columns["positions"] = np.roll(columns["positions"], k, axis=0)
        paths.append(write_targets(tmp_path / str(k) / "t.npz", columns))
        os.utime(paths[-1], ns=(0, 0))
    assert paths[0].stat().st_size == paths[1].stat().st_size
    solve_job(panda_job(paths, tmp_path / "results"))
    with pytest.raises(InputError, match=r"another job: inputs\[0\].ends is '\w+' there"):
        solve_job(panda_job(paths[::-1], tmp_path / "results"))


def test_results_of_another_place_or_job_are_not_taken_for_those_of_this(targets, tmp_path):
    for kind in ("parquet", "npz"):
        folder, other = tmp_path / kind, tmp_path / f"other {kind}"
        job = panda_job([targets], folder, format=kind, part_rows=10)
        solve_job(job)
        whole = part_bytes(folder)
        paths = [folder / name for name in sorted(whole)]
        paths[1].write_bytes(paths[0].read_bytes())
        with pytest.raises(InputError, match=rf"'{paths[1]}' holds results of part 0 of this job"):
            solve_job(job)
        options = SolverOptions(random_seed=1)
        solve_job(panda_job([targets], other, format=kind, part_rows=10, options=options))
        paths[1].write_bytes((other / paths[1].name).read_bytes())
        with pytest.raises(InputError, match=rf"'{paths[1]}' holds results of another job"):
            solve_job(job)
        paths[1].unlink()
        assert solve_job(job).resumed_parts == len(paths) - 1
        assert part_bytes(folder) == whole


def test_a_folder_with_other_files_or_another_process_is_refused(targets, tmp_path):
    with pytest.raises(InputError, match=r"holds 't.npz' and no bulk job"):
        solve_job(panda_job([targets], tmp_path))
    with pytest.raises(InputError, match=r"Cannot use .* for results"):
        solve_job(panda_job([targets], targets))
    folder = tmp_path / "results"
    folder.mkdir()
    with open(folder / "_lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="Another process is at work"):
            solve_job(panda_job([targets], folder))
    (folder / "._job.json").write_text('{"inp')  # of one that was killed while it wrote this
    assert solve_job(panda_job([targets], folder)).done == SHORT
    assert json.loads((folder / "_job.json").read_text())["inputs[0].rows"] == SHORT


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"format": "csv"}, InputError, "format is 'csv'"),
        ({"part_rows": 0}, InputError, "part_rows is 0"),
        ({"targets": []}, InputError, "targets is"),
        ({"targets": "panda_hand"}, InputError, "Allowed: a list of link names"),
        ({"targets": ["nose"]}, UnknownNameError, "nose"),
        ({"targets": [Target(LINK, row_weights=np.ones((2, 6)))]}, InputError, "data per problem"),
        ({"options": SolverOptions(solutions=2)}, InputError, "solutions is above 1"),
        ({"device": "abacus"}, InputError, "abacus"),
    ],
)
def test_wrong_jobs_are_refused_before_a_folder_is_made(targets, tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        solve_job(panda_job([targets], tmp_path / "results", **options))
    assert not (tmp_path / "results").exists()
    with pytest.raises(InputError, match="inputs is"):
        panda_job([], tmp_path / "results")
    with pytest.raises(IKError, match="threads"):
        solve_job(panda_job([targets], tmp_path / "results"), LocalWorker(threads=0))


def test_a_disk_that_does_not_take_results_fails_the_part(targets, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_module, "write_part", full)
    with pytest.raises(FailedPartsError, match=r"part-000000.parquet': No space left"):
        solve_job(panda_job([targets], tmp_path / "results"))
    assert part_bytes(tmp_path / "results") == {}


def test_more_parts_than_their_names_can_order_are_refused_before_anything_is_solved(targets, tmp_path, monkeypatch):
    monkeypatch.setattr(job_module, "PARTS_MAX", 3)
    with pytest.raises(InputError, match=r"has 4 parts at part_rows 20\. Allowed: 3\. Give larger"):
        solve_job(panda_job([targets, targets], tmp_path / "results", part_rows=20))
    assert not (tmp_path / "results").exists()
    assert solve_job(panda_job([targets, targets], tmp_path / "results", part_rows=30)).part_count == 2


def test_options_may_be_scalars_of_numpy(targets, tmp_path):
    options = SolverOptions(seeds=np.int64(8), position_tolerance=np.float32(0.125))
    solve_job(panda_job([targets], tmp_path / "results", options=options))
    plain = SolverOptions(seeds=8, position_tolerance=0.125)
    assert solve_job(panda_job([targets], tmp_path / "results", options=plain)).resumed_parts == 1
