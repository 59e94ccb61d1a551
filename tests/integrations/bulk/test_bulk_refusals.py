"""Bulk jobs: what is refused, where it says the fault is, and what becomes of the rest."""

import fcntl
import json
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ik_service import SolverOptions, Target, load_robot
from ik_service.errors import IKError
from ik_service.integrations.bulk import FailedPartsError, LocalWorker, read_results, solve_job
from ik_service.integrations.bulk import plan as plan_module
from ik_service.integrations.bulk.software import software
from objectives import InputError, UnknownNameError
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

SHORT = 30


@pytest.fixture(scope="module")
def columns():
    return random_columns(load_robot("panda"), [LINK], COUNT)


def short(columns):
    return {name: array[:SHORT] for name, array in columns.items()}


def without(columns, name):
    return {other: array for other, array in columns.items() if other != name}


BAD_FILES = {
    "neither column": ("t.npz", lambda c: {"initial_joint_q": c["initial_joint_q"]}, "neither a column 'positions'"),
    "misspelt column": (
        "t.parquet",
        lambda c: c | {"orientation": c["positions"]},
        "column 'orientation' is not known",
    ),
    "narrow positions": (
        "t.npz",
        lambda c: c | {"positions": c["positions"][:, :2]},
        r"'positions' has shape \[n, 2\]",
    ),
    "narrow lists": ("t.parquet", lambda c: c | {"positions": c["positions"][:, :2]}, r"shape \[n, 2\]. Give \[n, 3\]"),
    "wide starts": ("t.npz", lambda c: c | {"initial_joint_q": np.zeros((SHORT, 9))}, r"'initial_joint_q' .*\[n, 7\]"),
    "words": ("t.npz", lambda c: c | {"positions": np.full((SHORT, 3), "x")}, "'positions' is of type <U1"),
    "objects": ("t.npz", lambda c: c | {"positions": np.full((SHORT, 3), None)}, "'positions' is no plain array"),
    "columns first": ("t.npz", lambda c: c | {"positions": np.zeros((3, SHORT)).T}, "'positions' is no plain array"),
    "unequal lengths": ("t.npz", lambda c: c | {"positions": c["positions"][:9]}, "different numbers of problems"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_does_not_fit_is_named_with_its_column(columns, tmp_path, case):
    name, changed, message = BAD_FILES[case]
    targets = write_targets(tmp_path / name, changed(short(columns)))
    with pytest.raises(InputError, match=message) as caught:
        solve_job(panda_job([targets], tmp_path / "results"))
    assert name in str(caught.value)
    assert not (tmp_path / "results").exists()


def test_files_of_other_kinds_are_refused(columns, tmp_path):
    compressed = tmp_path / "compressed.npz"
    np.savez_compressed(compressed, **short(columns))
    words = tmp_path / "words.parquet"
    pq.write_table(pa.table({"positions": ["a"] * 3}), words)
    scalars = tmp_path / "scalars.parquet"
    pq.write_table(pa.table({"positions": [1.0] * 3}), scalars)
    for name in ("text.parquet", "text.npz", "text.csv"):
        (tmp_path / name).write_text("x,y,z\n1,2,3\n")
    cases = {
        compressed: "'positions' is compressed.*numpy.savez",
        words: "'positions' is of type string",
        scalars: "'positions' is of type double",
        tmp_path / "text.parquet": "not a Parquet file",
        tmp_path / "text.npz": "not an archive",
        tmp_path / "text.csv": "'.csv'. Allowed in a bulk job: .parquet, .npz",
        tmp_path / "none.parquet": "Cannot read",
        tmp_path / "none.npz": "Cannot read .*: No such file",
    }
    for path, message in cases.items():
        with pytest.raises(InputError, match=message) as caught:
            solve_job(panda_job([path], tmp_path / "results"))
        assert path.name in str(caught.value)


@pytest.mark.parametrize("shape", [b"(True,3)", b"(-9, 3)", b"((((((("])
def test_a_damaged_header_of_an_array_is_an_archive_that_cannot_be_used(columns, tmp_path, shape):
    targets = write_targets(tmp_path / "targets.npz", {"positions": short(columns)["positions"][:1]})
    whole = targets.read_bytes()
    said = b"(1, 3), }    "
    assert whole.count(said) == 1
    targets.write_bytes(whole.replace(said, (shape + b", }").ljust(len(said))))
    with pytest.raises(InputError, match=r"targets.npz'"):
        solve_job(panda_job([targets], tmp_path / "results"))


def test_every_file_has_the_columns_of_the_first(columns, tmp_path):
    first = write_targets(tmp_path / "first.parquet", short(columns))
    second = write_targets(tmp_path / "second.npz", without(short(columns), "initial_joint_q"))
    with pytest.raises(InputError, match=r"second.npz' has no column 'initial_joint_q'"):
        solve_job(panda_job([first, second], tmp_path / "results"))
    with pytest.raises(InputError, match=r"first.parquet' has a column 'initial_joint_q', which .*second.npz' has not"):
        solve_job(panda_job([second, first], tmp_path / "results"))


def test_columns_that_are_named_are_read_and_others_passed_over(columns, tmp_path):
    others = {"number": np.arange(SHORT), "note": np.array("made today"), "objects": np.full(2, None)}
    given = short(columns) | others
    targets = write_targets(tmp_path / "targets.npz", given)
    job = panda_job([targets], tmp_path / "results", columns=["positions", "orientations_xyzw"])
    solve_job(job)
    expected = directly(without(short(columns), "initial_joint_q"))
    np.testing.assert_array_equal(read_results(tmp_path / "results")["joint_q"], expected.joint_q)
    bare = write_targets(tmp_path / "bare.npz", without(short(columns), "initial_joint_q"))
    with pytest.raises(InputError, match="has no column 'initial_joint_q'"):
        solve_job(panda_job([bare], tmp_path / "r2", columns=["positions", "initial_joint_q"]))
    with pytest.raises(InputError, match="column 'number' is not known"):
        solve_job(panda_job([targets], tmp_path / "r3", columns=["positions", "number"]))


def test_empty_files_are_passed_over_and_nothing_else_is_refused(columns, tmp_path):
    nothing = {name: array[:0] for name, array in columns.items()}
    empty = [write_targets(tmp_path / f"empty{kind}", nothing) for kind in (".npz", ".parquet")]
    with pytest.raises(InputError, match=r"No targets in .*empty.npz.*empty.parquet"):
        solve_job(panda_job(empty, tmp_path / "results"))
    some = write_targets(tmp_path / "some.npz", short(columns))
    report = solve_job(panda_job([empty[0], some, empty[1]], tmp_path / "results"))
    assert (report.part_count, report.problem_count) == (1, SHORT)


def nan(columns):
    columns["positions"][432, 1] = np.nan


def long_quaternion(columns):
    columns["orientations_xyzw"][432] *= 1.5


def far_start(columns):
    columns["initial_joint_q"][432, 6] = 1e12


FAULTS = {nan: r"positions\[0, 1\] is nan", long_quaternion: "of length 1.5", far_start: "1000000000000"}


@pytest.mark.parametrize("kind", [".parquet", ".npz"])
@pytest.mark.parametrize("spoil", FAULTS)
def test_a_faulty_row_fails_its_part_alone_and_can_be_marked_later(columns, tmp_path, kind, spoil):
    good = directly(columns)
    spoilt = {name: array.copy() for name, array in columns.items()}
    spoil(spoilt)
    before = {name: array[:50] for name, array in columns.items()}
    inputs = [write_targets(tmp_path / "before.npz", before), write_targets(tmp_path / f"faulty{kind}", spoilt)]
    job = panda_job(inputs, tmp_path / "results")
    with pytest.raises(
        FailedPartsError, match=rf"^1 of 7 parts failed.*faulty{kind}' row 432: .*{FAULTS[spoil]}"
    ) as caught:
        solve_job(job)
    assert list(caught.value.report.failures) == [5]
    assert caught.value.report.done == 50 + COUNT - PART_ROWS
    assert len(part_bytes(tmp_path / "results")) == 6
    report = solve_job(job, mark_faulty=True)
    assert (report.resumed_parts, report.status_counts["invalid"]) == (6, 1)
    results = {name: array[50:] for name, array in read_results(tmp_path / "results").items()}
    others = np.arange(COUNT) != 432
    np.testing.assert_array_equal(results["joint_q"][others], good.joint_q[others])
    assert results["status"][432] == "invalid"
    assert (results["success"][432], results["iterations"][432], results["seed_index"][432]) == (False, 0, -1)
    assert np.isnan([*results["joint_q"][432], results["cost"][432], results["position_error_m"][432]]).all()
    fresh = panda_job(inputs, tmp_path / "fresh")
    solve_job(fresh, mark_faulty=True)
    assert part_bytes(tmp_path / "fresh") == part_bytes(tmp_path / "results")


@pytest.mark.evidence
def test_a_quaternion_of_a_start_without_length_is_a_faulty_row(tmp_path):
    robot = load_robot("humanoid")
    links = [robot.link_names[-1]]
    given = random_columns(robot, links, 4)
    given["initial_joint_q"][2, 3:7] = 0.0
    targets = write_targets(tmp_path / "targets.npz", given)
    job = panda_job([targets], tmp_path / "results", robot=robot, targets=links)
    with pytest.raises(FailedPartsError, match=r"row 2: .*length zero"):
        solve_job(job)
    assert solve_job(job, mark_faulty=True).status_counts["invalid"] == 1
    assert read_results(tmp_path / "results")["status"][2] == "invalid"


def test_a_list_that_is_missing_or_too_short_is_a_faulty_row(columns, tmp_path):
    positions = columns["positions"][:5].tolist()
    positions[1], positions[3] = None, [0.1, 0.2]
    positions[4] = [0.1, None, 0.2]
    targets = tmp_path / "lists.parquet"
    pq.write_table(pa.table({"positions": positions}), targets)
    with pytest.raises(FailedPartsError, match=r"lists.parquet' row 1: positions"):
        solve_job(panda_job([targets], tmp_path / "results"))
    solve_job(panda_job([targets], tmp_path / "results"), mark_faulty=True)
    results = read_results(tmp_path / "results")
    assert (results["status"] == "invalid").tolist() == [False, True, False, True, True]
    pq.write_table(pa.table({"positions": [[0.1, 0.2]] * 5}), targets)
    with pytest.raises(InputError, match="rows 0 to 4: column 'positions' nowhere holds 3 numbers"):
        solve_job(panda_job([targets], tmp_path / "others"))
    assert not (tmp_path / "others").exists()


def test_unreadable_rows_fail_their_part_alone(columns, tmp_path):
    targets = write_targets(tmp_path / "t.parquet", columns, row_group_size=PART_ROWS, compression="zstd")
    where = pq.ParquetFile(targets).metadata.row_group(2).column(0).data_page_offset
    content = bytearray(targets.read_bytes())
    content[where : where + 200] = b"\xff" * 200
    targets.write_bytes(content)
    with pytest.raises(
        FailedPartsError, match=r"^1 of 6 parts.*t.parquet' cannot be read in row groups 2 to 2"
    ) as caught:
        solve_job(panda_job([targets], tmp_path / "results"))
    assert list(caught.value.report.failures) == [2]
    assert len(part_bytes(tmp_path / "results")) == 5


def test_a_file_that_changes_under_way_fails_what_is_left(columns, tmp_path):
    targets = write_targets(tmp_path / "t.npz", columns)

    def touch(done, _):
        if done == PART_ROWS:
            os.utime(targets, ns=(0, 0))

    with pytest.raises(FailedPartsError, match=r"^5 of 6 parts.*t.npz' has changed while") as caught:
        solve_job(panda_job([targets], tmp_path / "results"), progress=touch)
    assert caught.value.report.done == PART_ROWS


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
def test_a_folder_of_another_job_is_refused(columns, tmp_path, case):
    change, message = OTHER_JOBS[case]
    targets = write_targets(tmp_path / "t.npz", short(columns))
    solve_job(panda_job([targets], tmp_path / "results"))
    before = part_bytes(tmp_path / "results")
    with pytest.raises(InputError, match=rf"holds results of another job: .*{message}"):
        solve_job(panda_job([targets], tmp_path / "results", **change()))
    assert part_bytes(tmp_path / "results") == before


def test_a_folder_made_from_other_files_or_by_other_software_is_refused(columns, tmp_path, monkeypatch):
    targets = write_targets(tmp_path / "t.npz", short(columns))
    job = panda_job([targets], tmp_path / "results")
    solve_job(job)
    with monkeypatch.context() as patch:
        patch.setattr(plan_module, "software", lambda: software() | {"warp-lang": "0"})
        with pytest.raises(InputError, match=r"job: software.warp-lang is .* there and '0' here\."):
            solve_job(job)
    write_targets(targets, {name: array[::-1].copy() for name, array in short(columns).items()})
    os.utime(targets, ns=(0, 0))
    with pytest.raises(InputError, match=r"another job: inputs\[0\].fingerprint is .*; inputs\[0\].modified_ns"):
        solve_job(job)
    (tmp_path / "results" / "_job.json").write_text("{")
    with pytest.raises(InputError, match=r"_job.json' is damaged"):
        solve_job(job)


def test_a_worker_with_other_software_makes_nothing(columns, tmp_path, monkeypatch):
    from ik_service.integrations.bulk import worker

    targets = write_targets(tmp_path / "t.npz", short(columns))
    monkeypatch.setattr(worker, "code_of", lambda device: f"{device} of another kind")
    with pytest.raises(FailedPartsError, match=r"code is cpu of another kind, not cpu "):
        solve_job(panda_job([targets], tmp_path / "results"))
    assert part_bytes(tmp_path / "results") == {}


def test_a_folder_with_other_files_or_another_process_is_refused(columns, tmp_path):
    targets = write_targets(tmp_path / "t.npz", short(columns))
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
    assert json.loads((folder / "_job.json").read_text())["inputs"][0]["rows"] == SHORT


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
def test_wrong_jobs_are_refused_before_a_folder_is_made(columns, tmp_path, options, error, message):
    targets = write_targets(tmp_path / "t.npz", short(columns))
    with pytest.raises(error, match=message):
        solve_job(panda_job([targets], tmp_path / "results", **options))
    assert not (tmp_path / "results").exists()
    with pytest.raises(InputError, match="inputs is"):
        panda_job([], tmp_path / "results")
    with pytest.raises(IKError, match="threads"):
        solve_job(panda_job([targets], tmp_path / "results"), LocalWorker(threads=0))


def test_a_disk_that_does_not_take_results_fails_the_part(columns, tmp_path, monkeypatch):
    from ik_service.integrations.bulk import worker

    def full(*_):
        raise OSError(28, "No space left on device")

    targets = write_targets(tmp_path / "t.npz", short(columns))
    monkeypatch.setattr(worker, "write_part", full)
    with pytest.raises(FailedPartsError, match=r"part-000000.parquet': No space left"):
        solve_job(panda_job([targets], tmp_path / "results"))
    assert part_bytes(tmp_path / "results") == {}


def test_without_pyarrow_there_is_npz(columns, tmp_path, monkeypatch):
    targets = write_targets(tmp_path / "t.npz", short(columns))
    for name in (
        "pyarrow",
        "ik_service.integrations.bulk.parquet_targets",
        "ik_service.integrations.bulk.parquet_results",
    ):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"pip install '\.\[bulk\]'"):
        panda_job([targets], tmp_path / "results")
    with pytest.raises(InputError, match=r"pip install '\.\[bulk\]'"):
        solve_job(panda_job([Path("t.parquet")], tmp_path / "results", format="npz"))
    assert solve_job(panda_job([targets], tmp_path / "results", format="npz")).solved > 0
