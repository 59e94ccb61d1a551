"""Bulk jobs whose inputs change, hold too little, or hold more than is read."""

import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ik_service import load_robot
from ik_service.integrations.bulk import FailedPartsError, read_results, solve_job, worker
from ik_service.integrations.bulk.arrow_lists import rows_that_fit
from ik_service.integrations.bulk.open_targets import open_targets
from objectives import InputError
from tests.integrations.bulk.bulk_files import LINK, panda_job, part_bytes, random_columns, write_targets

SHORT = 30
ROOT = Path(__file__).parents[3]
LONG = 200_000  # rows of a file that is too large to be hashed whole


@pytest.fixture(scope="module")
def columns():
    return random_columns(load_robot("panda"), [LINK], SHORT)


def at_one_time(path, columns, **options):
    write_targets(path, columns, **options)
    os.utime(path, ns=(0, 0))
    return path


@pytest.mark.parametrize("kind", [".parquet", ".npz"])
def test_another_file_of_equal_name_size_and_time_is_another_job(columns, tmp_path, kind):
    days = []
    for day, given in (("monday", columns), ("tuesday", {name: array[::-1] for name, array in columns.items()})):
        (tmp_path / day).mkdir()
        days.append(
            at_one_time(tmp_path / day / f"targets{kind}", {name: array.copy() for name, array in given.items()})
        )
    assert days[0].stat().st_size == days[1].stat().st_size
    solve_job(panda_job(days[:1], tmp_path / "results"))
    before = part_bytes(tmp_path / "results")
    with pytest.raises(InputError, match=r"another job: inputs\[0\]\.fingerprint is '\w+' there and '\w+' here\. "):
        solve_job(panda_job(days[1:], tmp_path / "results"))
    assert part_bytes(tmp_path / "results") == before
    assert solve_job(panda_job(days[:1], tmp_path / "results")).resumed_parts == 1


def test_the_fingerprint_of_a_large_file_of_parquet_knows_its_bounds_and_its_samples(tmp_path):
    fingerprints = []
    given = np.random.default_rng(0).uniform(-1.0, 1.0, (LONG, 3))
    for row, value in ((0, 0.5), (0, 0.25), (LONG - 1, 0.5), (LONG // 2, 2.0)):
        positions = given.copy()
        positions[row] = value
        path = at_one_time(
            tmp_path / "targets.parquet", {"positions": positions}, compression="none", use_dictionary=False
        )
        fingerprints.append(open_targets(str(path)).fingerprint)
        assert open_targets(str(path)).fingerprint == fingerprints[-1]
    assert len(set(fingerprints)) == 4


@pytest.mark.parametrize("kind", [".parquet", ".npz"])
def test_a_part_of_faulty_rows_alone_can_be_marked(columns, tmp_path, kind):
    positions = columns["positions"][:6].copy()
    positions[2:4] = np.nan
    targets = write_targets(tmp_path / f"targets{kind}", {"positions": positions})
    job = panda_job([targets], tmp_path / "results", part_rows=2)
    with pytest.raises(FailedPartsError, match=r"^1 of 3 parts failed.* row 2: positions"):
        solve_job(job)
    assert solve_job(job, mark_faulty=True).status_counts["invalid"] == 2
    assert (read_results(tmp_path / "results")["status"] == "invalid").tolist() == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]


def test_first_row_groups_without_a_list_that_fits_are_faulty_rows_where_later_ones_fit(columns, tmp_path):
    positions = columns["positions"][:4].tolist()
    positions[0], positions[1] = None, [0.1, 0.2]
    pq.write_table(pa.table({"positions": positions}), tmp_path / "targets.parquet", row_group_size=1)
    job = panda_job([tmp_path / "targets.parquet"], tmp_path / "results", part_rows=1)
    assert solve_job(job, mark_faulty=True).status_counts["invalid"] == 2
    assert read_results(tmp_path / "results")["success"].tolist()[2:] == [True, True]
    pq.write_table(pa.table({"positions": pa.array([None] * 2, pa.list_(pa.float64()))}), tmp_path / "none.parquet")
    job = panda_job([tmp_path / "none.parquet"], tmp_path / "none")
    assert solve_job(job, mark_faulty=True).status_counts["invalid"] == 2


WIDE = {
    "wide": [[0.1, 0.2, 0.3, 0.4]] * 4,
    "wide and flat, of fixed size": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(28)), 7),
    "three targets": [[[0.1, 0.2, 0.3]] * 3] * 4,
    "wide in one of two": [[[0.1, 0.2, 0.3], [0.1, 0.2]]] * 4,
}


@pytest.mark.parametrize("case", WIDE)
def test_lists_that_have_another_length_in_all_rows_are_refused_before_anything_is_solved(tmp_path, case):
    links = ["left_panda_hand", "right_panda_hand"]
    pq.write_table(pa.table({"positions": WIDE[case]}), tmp_path / "wide.parquet")
    job = panda_job([tmp_path / "wide.parquet"], tmp_path / "results", robot=load_robot("dual_panda"), targets=links)
    with pytest.raises(InputError, match=r"wide.parquet' rows 0 to 3: column 'positions' nowhere holds 2 x 3 numbers"):
        solve_job(job, mark_faulty=True)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_rows_fit_by_their_lengths_and_not_by_their_numbers(shape):
    rows = np.full((4, *shape), np.nan).tolist()
    rows[1], rows[3] = None, rows[3] + rows[3]
    values = pa.array(rows, pa.list_(pa.float64()) if len(shape) == 1 else pa.list_(pa.list_(pa.float64())))
    assert rows_that_fit(values, shape).tolist() == [True, False, True, False]
    assert rows_that_fit(values.slice(1, 2), shape).tolist() == [False, True]


def overwrite(path):
    content = path.read_bytes()
    path.write_bytes(content[:300] + bytes(len(content) - 600) + content[-300:])


@pytest.mark.parametrize("kind", [".parquet", ".npz"])
def test_a_file_that_is_written_while_it_is_read_fails_the_part(columns, tmp_path, monkeypatch, kind):
    targets = at_one_time(tmp_path / f"targets{kind}", columns)
    reader = type(open_targets(str(targets)))
    read = reader.read

    def read_and_write(self, *arguments):
        found = read(self, *arguments)
        overwrite(targets)
        return found

    monkeypatch.setattr(reader, "read", read_and_write)
    with pytest.raises(FailedPartsError, match=rf"^1 of 1 parts failed.*targets{kind}' has changed while the job"):
        solve_job(panda_job([targets], tmp_path / "results"))
    assert part_bytes(tmp_path / "results") == {}


CUT_OFF = """
import os, sys
from pathlib import Path
from ik_service.integrations.bulk import FailedPartsError, solve_job
from ik_service.integrations.bulk.npz_targets import NpzTargets
from tests.integrations.bulk.bulk_files import panda_job
targets, read = sys.argv[1], NpzTargets.read

def cut_off_and_read(self, *arguments):
    os.truncate(targets, 4096)
    return read(self, *arguments)

NpzTargets.read = cut_off_and_read
try:
    solve_job(panda_job([targets], Path(sys.argv[2]), part_rows=20_000))
except FailedPartsError as error:
    print(error)
"""


def test_a_file_that_is_cut_off_while_it_is_read_does_not_end_the_process(tmp_path):
    targets = write_targets(tmp_path / "targets.npz", {"positions": np.full((20_000, 3), 0.3)})
    command = [sys.executable, "-c", CUT_OFF, str(targets), str(tmp_path / "results")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(r"1 of 1 parts failed.*targets.npz' ends in row 1\d\d of column 'positions'", ended.stdout)


def test_an_array_that_is_shorter_than_its_head_says_is_refused(columns, tmp_path):
    given = io.BytesIO()
    np.save(given, columns["positions"])
    with zipfile.ZipFile(tmp_path / "targets.npz", "w") as archive:
        archive.writestr("positions.npy", given.getvalue()[:-8])
    with pytest.raises(InputError, match="column 'positions' is shorter than its head says"):
        solve_job(panda_job([tmp_path / "targets.npz"], tmp_path / "results"))


def one_number_a_column(columns):
    """A table with a column for each number, as files of CSV have them."""
    numbers = {name: columns["positions"][:, k] for k, name in enumerate("xyz")}
    return numbers | {f"q{name}": columns["orientations_xyzw"][:, k] for k, name in enumerate("xyzw")}


@pytest.mark.parametrize("asked", [None, ["positions", "orientations_xyzw"]])
def test_parquet_may_have_the_columns_of_csv_and_an_id(tmp_path, asked):
    columns = random_columns(load_robot("panda"), [LINK], 40)
    del columns["initial_joint_q"]
    lists = write_targets(tmp_path / "lists.parquet", columns)
    solve_job(panda_job([lists], tmp_path / "expected"))
    numbers = tmp_path / "numbers.parquet"
    pq.write_table(pa.table(one_number_a_column(columns) | {"id": [f"row {k}" for k in range(40)]}), numbers)
    report = solve_job(panda_job([numbers], tmp_path / "results", columns=asked))
    assert report.passed_over == (() if asked else ("id",))
    expected, found = (read_results(tmp_path / name) for name in ("expected", "results"))
    assert expected["success"].all()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_parquet_with_the_columns_of_csv_may_mix_types_and_lack_numbers(tmp_path):
    columns = random_columns(load_robot("panda"), [LINK], 4)
    table = one_number_a_column(columns) | {"x": pa.array([0.4, None, 0.3, 0.2], pa.float32())}
    targets = tmp_path / "t.parquet"
    pq.write_table(pa.table(table), targets)
    with pytest.raises(FailedPartsError, match=r"t.parquet' row 1: positions\[0, 0\] is nan"):
        solve_job(panda_job([targets], tmp_path / "results"))
    pq.write_table(pa.table(table | {"qx": ["a"] * 4}), targets)
    with pytest.raises(InputError, match=r"t.parquet': column 'qx' is of type string. Give numbers"):
        solve_job(panda_job([targets], tmp_path / "results"))
    pq.write_table(pa.table({name: table[name] for name in ("x", "y", "qx")}), targets)
    with pytest.raises(InputError, match=r"column 'x' is not known"):
        solve_job(panda_job([targets], tmp_path / "results"))
    pq.write_table(pa.table(one_number_a_column(columns)), targets)
    with pytest.raises(InputError, match=r"'positions' has shape \[n, 3\]. Give \[n, 2, 3\]"):
        solve_job(panda_job([targets], tmp_path / "results", targets=[LINK, "panda_link6"]))


def test_other_columns_are_refused_and_the_way_past_them_named(tmp_path):
    columns = random_columns(load_robot("panda"), [LINK], 4)
    targets = tmp_path / "t.parquet"
    pq.write_table(pa.table(one_number_a_column(columns) | {"note": ["a"] * 4}), targets)
    with pytest.raises(InputError, match=r"'note' is not known.*--column positions --column"):
        solve_job(panda_job([targets], tmp_path / "results"))


def test_progress_is_told_within_a_part(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "SOLVED_AT_ONCE", 30)
    columns = random_columns(load_robot("panda"), [LINK], 150)
    told = []
    targets = write_targets(tmp_path / "t.npz", columns)
    solve_job(panda_job([targets], tmp_path / "results"), progress=lambda *seen: told.append(seen))
    assert told == [(done, 150) for done in (0, 30, 60, 75, 105, 135, 150)]
