"""Bulk jobs in this process: what comes out, in which order, and how a job goes on that was ended."""

import itertools
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest

from ik_service import SolverOptions, Target, load_robot
from ik_service.integrations.bulk import LocalWorker, read_results, solve_job
from ik_service.integrations.bulk.job import BulkPlan
from ik_service.integrations.bulk.parquet import read_table as read_part
from ik_service.integrations.bulk.run import PartWorker
from ik_service.solver.arrays import parts
from tests.integrations.bulk.bulk_files import (
    COUNT,
    LINK,
    PART_ROWS,
    directly,
    panda_job,
    part_bytes,
    random_columns,
    write_targets,
)

PARTS = COUNT // PART_ROWS
KILL_TIMEOUT_S = 300.0  # the first solve on a machine compiles kernels
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def columns():
    return random_columns(load_robot("panda"), [LINK], COUNT)


@pytest.fixture(scope="module")
def targets(columns, tmp_path_factory):
    return write_targets(tmp_path_factory.mktemp("targets") / "targets.parquet", columns)


@pytest.fixture(scope="module")
def whole(targets, tmp_path_factory):
    """Results of a job that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "results"
    solve_job(panda_job([targets], folder))
    return folder


def assert_are(results, answer, rows=slice(None)):
    assert len(results["problem"]) == len(answer.joint_q[rows]) > 0
    for name in ("joint_q", "success", "iterations", "seed_index", "cost"):
        np.testing.assert_array_equal(results[name], getattr(answer, name)[rows])
    assert results["status"].tolist() == answer.status_names[rows]
    for name, errors in (("position_error_m", "position_error"), ("orientation_error_rad", "orientation_error")):
        np.testing.assert_array_equal(results[name], getattr(answer, errors)[rows].max(axis=1))


@pytest.mark.parametrize("result_format", ["parquet", "npz"])
@pytest.mark.parametrize("kind", [".parquet", ".npz"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_results_are_those_of_the_solver_called_directly(columns, tmp_path, kind, result_format, precision):
    targets = write_targets(tmp_path / f"targets{kind}", columns)
    options = SolverOptions(seeds=8, precision=precision)
    report = solve_job(panda_job([targets], tmp_path / "results", format=result_format, options=options))
    results = read_results(tmp_path / "results")
    answer = directly(columns, options=options)
    assert_are(results, answer)
    assert results["joint_q"].dtype == precision
    assert report.solved == answer.success.sum() > 0
    assert report.done == report.problem_count == COUNT
    assert (report.part_count, report.resumed_parts, report.failures) == (PARTS, 0, {})


def test_several_files_of_both_kinds_are_one_row_of_problems(columns, tmp_path):
    bounds = [0, 250, 250, 260, COUNT]
    inputs = []
    for number, (first, end) in enumerate(itertools.pairwise(bounds)):
        path = tmp_path / f"{'dcba'[number]}{'.npz' if number % 2 else '.parquet'}"
        inputs.append(write_targets(path, {name: array[first:end] for name, array in columns.items()}))
    report = solve_job(panda_job(inputs, tmp_path / "results"))
    results = read_results(tmp_path / "results")
    assert results["problem"].tolist() == list(range(COUNT))
    assert_are(results, directly(columns))
    assert report.part_count == 3 + 0 + 1 + 4


@pytest.mark.parametrize("kind", [".parquet", ".npz"])
def test_several_targets_have_errors_of_their_own(tmp_path, kind):
    robot, links = load_robot("dual_panda"), ["left_panda_hand", "right_panda_hand"]
    columns = random_columns(robot, links, 30)
    columns["positions"][::2, 1] += 5.0  # out of reach
    targets = write_targets(tmp_path / f"targets{kind}", columns)
    solve_job(panda_job([targets], tmp_path / "results", robot=robot, targets=links, part_rows=20))
    results, answer = read_results(tmp_path / "results"), directly(columns, robot, links)
    assert_are(results, answer)
    np.testing.assert_array_equal(results["target_position_error_m"], answer.position_error)
    np.testing.assert_array_equal(results["target_orientation_error_rad"], answer.orientation_error)
    assert 0 < results["success"].sum() < 30


def test_positions_alone_leave_orientations_free(columns, tmp_path):
    positions = {"positions": columns["positions"].astype(np.float32)}
    targets = write_targets(tmp_path / "targets.parquet", positions)
    solve_job(panda_job([targets], tmp_path / "results"))
    results = read_results(tmp_path / "results")
    np.testing.assert_array_equal(results["joint_q"], directly(positions).joint_q)
    assert np.isnan(results["orientation_error_rad"]).all()
    assert np.isfinite(results["position_error_m"]).all()


@pytest.mark.evidence
def test_tools_weights_and_locked_joints_count(columns, tmp_path):
    robot = load_robot("panda").lock({"panda_joint3": 0.25})
    tool = Target(LINK, offset=[0, 0, 0.1, 0, 0, 0, 1], row_weights=[1, 1, 1, 1, 1, 0])
    targets = write_targets(tmp_path / "targets.npz", columns)
    solve_job(panda_job([targets], tmp_path / "results", robot=robot, targets=[tool]))
    results = read_results(tmp_path / "results")
    np.testing.assert_array_equal(results["joint_q"], directly(columns, robot, [tool]).joint_q)
    np.testing.assert_array_equal(results["joint_q"][:, 2], columns["initial_joint_q"][:, 2].astype(np.float32))


@pytest.mark.evidence
def test_locked_joints_stay_where_they_are_locked_without_a_start(columns, tmp_path):
    robot = load_robot("panda").lock({"panda_joint3": 0.25})
    columns = {name: values for name, values in columns.items() if name != "initial_joint_q"}
    targets = write_targets(tmp_path / "targets.npz", columns)
    solve_job(panda_job([targets], tmp_path / "results", robot=robot))
    results = read_results(tmp_path / "results")
    np.testing.assert_array_equal(results["joint_q"], directly(columns, robot, [LINK]).joint_q)
    assert (results["joint_q"][:, 2] == np.float32(0.25)).all()


def test_readers_of_parquet_take_the_folder_as_one_table(whole, columns):
    table = pandas.read_parquet(whole)
    answer = directly(columns)
    assert table["problem"].tolist() == list(range(COUNT))
    np.testing.assert_array_equal(np.stack(table["joint_q"]), answer.joint_q)
    assert table["status"].tolist() == answer.status_names
    schema = pq.read_schema(whole / "part-000000.parquet")
    assert {name: schema.field(name).metadata[b"unit"] for name in ("joint_q", "position_error_m")} == {
        "joint_q": b"rad or m",
        "position_error_m": b"m",
    }


def test_results_do_not_depend_on_the_parts_or_the_threads(targets, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "PART_MIN", PART_ROWS // 4)  # else two threads have one part of a file's rows
    solve_job(panda_job([targets], tmp_path / "one", part_rows=COUNT))
    one, many = read_results(tmp_path / "one"), read_results(whole)
    assert [np.array_equal(one[name], many[name]) for name in many] == [True] * len(many)
    solve_job(panda_job([targets], tmp_path / "threads"), LocalWorker(threads=2))
    assert part_bytes(tmp_path / "threads") == part_bytes(whole)


def test_progress_counts_every_problem_once(targets, tmp_path):
    told = []
    solve_job(panda_job([targets], tmp_path / "results"), progress=lambda done, total: told.append((done, total)))
    assert told == [(done, COUNT) for done in range(0, COUNT + 1, PART_ROWS)]
    told.clear()
    report = solve_job(panda_job([targets], tmp_path / "results"), progress=lambda *pair: told.append(pair))
    assert told == [(COUNT, COUNT)]
    assert (report.resumed_parts, report.done) == (PARTS, COUNT)


def interrupted(job, after):
    """Runs a job until some problems are done with."""

    def stop(done, _):
        if done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_job(job, progress=stop)


def test_a_job_that_was_interrupted_goes_on_and_ends_with_the_same_bytes(targets, whole, tmp_path):
    job = panda_job([targets], tmp_path / "results")
    interrupted(job, 2 * PART_ROWS)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").glob("part-*")}
    assert len(before) == 2
    report = solve_job(job)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (report.resumed_parts, report.done) == (2, COUNT)
    assert report.status_counts == solve_job(job).status_counts
    assert part_bytes(tmp_path / "results") == part_bytes(whole)


@pytest.mark.evidence
def test_a_process_that_was_killed_leaves_whole_parts_and_the_next_goes_on(targets, whole, tmp_path):
    folder = tmp_path / "results"
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from tests.integrations.bulk.bulk_files import panda_job; from pathlib import Path\n"
        "from ik_service.integrations.bulk import solve_job\n"
        f"hang = lambda done, total: time.sleep({KILL_TIMEOUT_S} if done >= {3 * PART_ROWS} else 0)\n"
        "solve_job(panda_job([sys.argv[2]], Path(sys.argv[3])), progress=hang)\n"
    )
    command = [sys.executable, "-c", program, str(ROOT), str(targets), str(folder)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        deadline = time.monotonic() + KILL_TIMEOUT_S
        while len(list(folder.glob("part-*"))) < 2:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    left = len(list(folder.glob("part-*")))
    assert 2 <= left < PARTS
    (folder / ".part-000005.parquet.0123456789abcdef.unfinished").write_bytes(b"PAR1")
    report = solve_job(panda_job([targets], folder))
    assert report.resumed_parts == left
    assert part_bytes(folder) == part_bytes(whole)


@pytest.mark.parametrize("result_format", ["parquet", "npz"])
def test_a_part_that_is_gone_or_damaged_is_made_anew(targets, tmp_path, result_format):
    job = panda_job([targets], tmp_path / "results", format=result_format)
    solve_job(job)
    once = part_bytes(tmp_path / "results")
    paths = [tmp_path / "results" / name for name in sorted(once)]
    paths[1].unlink()
    paths[2].write_bytes(paths[2].read_bytes()[:-7])
    paths[3].write_bytes(b"")
    paths[4].write_bytes(b"\0" * 9 + paths[4].read_bytes()[:-50])
    middle = bytearray(paths[5].read_bytes())
    middle[3000] ^= 1  # a digit of a configuration
    paths[5].write_bytes(middle)
    if result_format == "parquet":
        with pytest.raises(OSError, match="CRC"):
            read_part(paths[5])
    assert solve_job(job).resumed_parts == PARTS - 5
    assert part_bytes(tmp_path / "results") == once


def test_a_plan_travels_without_files_of_the_robot(columns, targets, whole, tmp_path):
    files = [tmp_path / name for name in ("panda.urdf", "panda.collision.json")]
    for file in files:
        file.write_bytes((ROOT / "ik_service" / "robots" / "builtin" / file.name).read_bytes())
    job = panda_job([targets], tmp_path / "results", robot=load_robot(files[0]))
    plan = BulkPlan.of(job, "cpu")
    plan.description()
    (tmp_path / "results").mkdir()
    for file in files:
        file.unlink()
    sent = pickle.loads(pickle.dumps(plan))
    worker = PartWorker(sent)
    assert [worker.solve_part(part).failures for part in reversed(sent.parts)] == [{}] * PARTS
    np.testing.assert_array_equal(read_results(tmp_path / "results")["joint_q"], read_results(whole)["joint_q"])


@pytest.mark.evidence
def test_nothing_of_ray_is_imported(targets, tmp_path):
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path\n"
        "from tests.integrations.bulk.bulk_files import panda_job; from ik_service.integrations.bulk import solve_job\n"
        "assert solve_job(panda_job([sys.argv[2]], Path(sys.argv[3]))).solved > 0\n"
        "assert 'ray' not in sys.modules and 'ik_service.service' not in sys.modules\n"
    )
    command = [sys.executable, "-c", program, str(ROOT), str(targets), str(tmp_path / "results")]
    assert subprocess.run(command, cwd=ROOT, env=os.environ, check=False).returncode == 0
