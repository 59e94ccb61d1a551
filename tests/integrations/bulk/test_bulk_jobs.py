"""Bulk jobs in this process: what comes out, in which order, and how a job goes on that was ended."""

import itertools
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest

from ik_service import SolverOptions, Target, load_robot
from ik_service.integrations.bulk import LocalWorker, read_results
from ik_service.integrations.bulk.job import BulkPlan
from ik_service.integrations.bulk.parquet import read_table as read_part
from ik_service.integrations.bulk.run import PartWorker
from ik_service.solver import recording
from tests.integrations.bulk.bulk_files import (
    COUNT,
    LINK,
    PART_ROWS,
    PARTS,
    directly,
    interrupted,
    panda_job,
    part_bytes,
    random_columns,
    rows,
    solve,
    without,
    write_targets,
)

ROOT = Path(__file__).parents[3]


def assert_are(results, answer):
    assert len(results["problem"]) == len(answer.joint_q) > 0
    for name in ("joint_q", "success", "iterations", "seed_index", "cost"):
        np.testing.assert_array_equal(results[name], getattr(answer, name))
    assert results["status"].tolist() == answer.status_names
    for name, errors in (("position_error_m", "position_error"), ("orientation_error_rad", "orientation_error")):
        np.testing.assert_array_equal(results[name], getattr(answer, errors).max(axis=1))


@pytest.mark.parametrize("result_format", ["parquet", "npz"])
@pytest.mark.parametrize("kind", [".parquet", ".npz"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_results_are_those_of_the_solver_called_directly(columns, tmp_path, kind, result_format, precision):
    targets, options = write_targets(tmp_path / f"targets{kind}", columns), SolverOptions(seeds=8, precision=precision)
    report = solve(targets, tmp_path / "results", format=result_format, options=options)
    results, answer = read_results(tmp_path / "results"), directly(columns, options=options)
    assert_are(results, answer)
    assert results["joint_q"].dtype == precision
    assert report.solved == answer.success.sum() > 0
    assert report.done == report.problem_count == COUNT
    assert (report.part_count, report.resumed_parts, report.failures) == (PARTS, 0, {})


def test_several_files_of_both_kinds_are_one_row_of_problems(columns, tmp_path):
    inputs = [
        write_targets(tmp_path / f"{'dcba'[number]}{'.npz' if number % 2 else '.parquet'}", rows(columns, slice(*ends)))
        for number, ends in enumerate(itertools.pairwise([0, 250, 250, 260, COUNT]))
    ]
    report, results = solve(inputs, tmp_path / "results"), read_results(tmp_path / "results")
    assert results["problem"].tolist() == list(range(COUNT))
    assert_are(results, directly(columns))
    assert report.part_count == 3 + 0 + 1 + 4


@pytest.mark.parametrize("kind", [".parquet", ".npz"])
def test_several_targets_have_errors_of_their_own(tmp_path, kind):
    robot, links = load_robot("dual_panda"), ["left_panda_hand", "right_panda_hand"]
    columns = random_columns(robot, links, 30)
    columns["positions"][::2, 1] += 5.0  # out of reach
    targets = write_targets(tmp_path / f"targets{kind}", columns)
    solve(targets, tmp_path / "results", robot=robot, targets=links, part_rows=20)
    results, answer = read_results(tmp_path / "results"), directly(columns, robot, links)
    assert_are(results, answer)
    np.testing.assert_array_equal(results["target_position_error_m"], answer.position_error)
    np.testing.assert_array_equal(results["target_orientation_error_rad"], answer.orientation_error)
    assert 0 < results["success"].sum() < 30


def test_positions_alone_leave_orientations_free(columns, tmp_path):
    positions = {"positions": columns["positions"].astype(np.float32)}
    solve(write_targets(tmp_path / "targets.parquet", positions), tmp_path / "results")
    results = read_results(tmp_path / "results")
    np.testing.assert_array_equal(results["joint_q"], directly(positions).joint_q)
    assert np.isnan(results["orientation_error_rad"]).all()
    assert np.isfinite(results["position_error_m"]).all()


@pytest.mark.evidence
@pytest.mark.parametrize("with_start", [True, False])
def test_tools_weights_and_locked_joints_count(columns, tmp_path, with_start):
    robot = load_robot("panda").lock({"panda_joint3": 0.25})
    tool = Target(LINK, offset=[0, 0, 0.1, 0, 0, 0, 1], row_weights=[1, 1, 1, 1, 1, 0]) if with_start else LINK
    columns = columns if with_start else without(columns, "initial_joint_q")
    solve(write_targets(tmp_path / "targets.npz", columns), tmp_path / "results", robot=robot, targets=[tool])
    joint_q = read_results(tmp_path / "results")["joint_q"]
    np.testing.assert_array_equal(joint_q, directly(columns, robot, [tool]).joint_q)
    locked = columns["initial_joint_q"][:, 2] if with_start else np.full(COUNT, 0.25)
    np.testing.assert_array_equal(joint_q[:, 2], locked.astype(np.float32))


def test_readers_of_parquet_take_the_folder_as_one_table(whole, columns):
    table, answer = pandas.read_parquet(whole), directly(columns)
    assert table["problem"].tolist() == list(range(COUNT))
    np.testing.assert_array_equal(np.stack(table["joint_q"]), answer.joint_q)
    assert table["status"].tolist() == answer.status_names
    schema = pq.read_schema(whole / "part-000000.parquet")
    assert schema.field("joint_q").metadata[b"unit"] == b"rad or m"
    assert schema.field("position_error_m").metadata[b"unit"] == b"m"


def test_results_do_not_depend_on_the_parts_or_the_threads(targets, whole, whole_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "PART_MIN", PART_ROWS // 4)  # else two threads have one part of a file's rows
    solve(targets, tmp_path / "one", part_rows=COUNT)
    one, many = read_results(tmp_path / "one"), read_results(whole)
    assert [np.array_equal(one[name], many[name]) for name in many] == [True] * len(many)
    solve(targets, tmp_path / "threads", LocalWorker(threads=2))
    assert part_bytes(tmp_path / "threads") == whole_bytes


def test_progress_counts_every_problem_once(targets, tmp_path):
    told = []
    solve(targets, tmp_path / "results", progress=lambda *pair: told.append(pair))
    assert told == [(done, COUNT) for done in range(0, COUNT + 1, PART_ROWS)]
    told.clear()
    report = solve(targets, tmp_path / "results", progress=lambda *pair: told.append(pair))
    assert told == [(COUNT, COUNT)]
    assert (report.resumed_parts, report.done) == (PARTS, COUNT)


def test_a_job_that_was_interrupted_goes_on_and_ends_with_the_same_bytes(targets, whole_bytes, tmp_path):
    folder = tmp_path / "results"
    interrupted(targets, folder, 2 * PART_ROWS)
    before = {path: path.stat().st_mtime_ns for path in folder.glob("part-*")}
    assert len(before) == 2
    (folder / ".part-000005.parquet.0123456789abcdef.unfinished").write_bytes(b"PAR1")  # of one that was killed
    report = solve(targets, folder)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (report.resumed_parts, report.done) == (2, COUNT)
    assert report.status_counts == solve(targets, folder).status_counts
    assert part_bytes(folder) == whole_bytes


@pytest.mark.parametrize("result_format", ["parquet", "npz"])
def test_a_part_that_is_gone_or_damaged_is_made_anew(targets, tmp_path, result_format):
    folder = tmp_path / "results"
    solve(targets, folder, format=result_format)
    once = part_bytes(folder)
    paths = [folder / name for name in sorted(once)]
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
    assert solve(targets, folder, format=result_format).resumed_parts == PARTS - 5
    assert part_bytes(folder) == once


def test_a_plan_travels_without_files_of_the_robot(targets, whole, tmp_path):
    files = [tmp_path / name for name in ("panda.urdf", "panda.collision.json")]
    for file in files:
        file.write_bytes((ROOT / "ik_service" / "robots" / "builtin" / file.name).read_bytes())
    plan = BulkPlan.of(panda_job(targets, tmp_path / "results", robot=load_robot(files[0])), "cpu")
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
        "import sys, pathlib; sys.path.insert(0, sys.argv[1])\n"
        "from tests.integrations.bulk.bulk_files import solve\n"
        "assert solve(sys.argv[2:3], pathlib.Path(sys.argv[3])).solved > 0\n"
        "assert 'ray' not in sys.modules and 'ik_service.service' not in sys.modules\n"
    )
    command = [sys.executable, "-c", program, str(ROOT), str(targets), str(tmp_path / "results")]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
