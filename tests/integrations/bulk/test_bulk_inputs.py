"""Bulk jobs: what files of targets may hold, and what becomes of rows, files and parts that do not fit."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ik_service import load_robot
from ik_service.integrations.bulk import FailedPartsError, read_results
from ik_service.integrations.bulk.job import BulkPlan, InputFile
from ik_service.integrations.bulk.parquet import ParquetTargets, numbers_of
from ik_service.integrations.bulk.targets import NpzTargets
from tests.integrations.bulk.bulk_files import (
    COUNT,
    LINK,
    PART_ROWS,
    directly,
    lists,
    panda_job,
    part_bytes,
    random_columns,
    refused,
    rows,
    solve,
    without,
    write_targets,
)

SHORT = 30
KINDS = pytest.mark.parametrize("kind", [".parquet", ".npz"])


@pytest.fixture
def short(columns):
    return rows(columns, slice(SHORT))


def narrow(c):
    return c | {"positions": c["positions"][:, :2]}


BAD_FILES = {
    "neither column": ("t.npz", lambda c: {"initial_joint_q": c["initial_joint_q"]}, "neither a column 'positions'"),
    "misspelt column": (
        "t.parquet",
        lambda c: c | {"orientation": c["positions"]},
        r"column 'orientation' is not known.*--column positions --column orientations_xyzw",
    ),
    "narrow positions": ("t.npz", narrow, r"shape \[n, 2\]. Give \[n, 3\]"),
    "narrow lists": ("t.parquet", narrow, r"shape \[n, 2\]. Give \[n, 3\]"),
    "wide starts": ("t.npz", lambda c: c | {"initial_joint_q": np.zeros((SHORT, 9))}, r"'initial_joint_q' .*\[n, 7\]"),
    "words": ("t.npz", lambda c: c | {"positions": np.full((SHORT, 3), "x")}, "'positions' is of type <U1"),
    "objects": ("t.npz", lambda c: c | {"positions": np.full((SHORT, 3), None)}, "'positions' cannot be read.*Object"),
    "unequal lengths": ("t.npz", lambda c: c | {"positions": c["positions"][:9]}, "different numbers of problems"),
    "words.parquet": ("t.parquet", {"positions": ["a"] * 3}, "'positions' is of type string. Give lists"),
    "scalars.parquet": ("t.parquet", {"positions": [1.0] * 3}, "'positions' is of type double. Give lists"),
    "text.parquet": ("t.parquet", "x,y,z\n1,2,3\n", "not a Parquet file"),
    "text.npz": ("t.npz", "x,y,z\n1,2,3\n", "cannot be read as a plain array of numpy.savez"),
    "text.csv": ("t.csv", "x,y,z\n1,2,3\n", "'.csv'. Allowed in a bulk job: .parquet, .npz"),
    "none.parquet": ("t.parquet", None, "Cannot read"),
    "none.npz": ("t.npz", None, "Cannot read .*: No such file"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_does_not_fit_is_named_with_its_column(short, tmp_path, case):
    name, content, message = BAD_FILES[case]
    if callable(content):
        write_targets(tmp_path / name, content(short))
    elif isinstance(content, dict):
        pq.write_table(pa.table(content), tmp_path / name)
    elif content:
        (tmp_path / name).write_text(content)
    assert name in str(refused(message, tmp_path / name, tmp_path / "results"))
    assert not (tmp_path / "results").exists()


def flip_a_bit(path, array):
    content = bytearray(path.read_bytes())
    content[content.index(array.tobytes())] ^= 1
    path.write_bytes(content)


def test_an_array_that_has_not_its_checksum_is_refused_with_its_name(columns, tmp_path):
    targets = write_targets(tmp_path / "t.npz", columns)
    flip_a_bit(targets, columns["orientations_xyzw"][300])
    refused(r"t.npz': column 'orientations_xyzw' cannot be read .*CRC", targets, tmp_path / "results")
    assert not (tmp_path / "results").exists()
    solve(targets, tmp_path / "results", columns=["positions"])  # of what is read


def test_a_page_of_parquet_that_has_not_its_checksum_fails_its_part_alone(columns, tmp_path):
    options = {"compression": "none", "use_dictionary": False, "row_group_size": PART_ROWS}
    targets = write_targets(tmp_path / "t.parquet", columns, write_page_checksum=True, **options)
    flip_a_bit(targets, columns["positions"][300])
    named = r"^1 of 6 .*t.parquet' cannot be read in row groups 3 to 3: .*CRC"
    assert [*refused(named, targets, tmp_path / "results", FailedPartsError).report.failures] == [3]
    assert len(part_bytes(tmp_path / "results")) == 5


@pytest.mark.parametrize("shape", [b"(-9, 3)", b"((((((("])
def test_a_damaged_header_of_an_array_is_an_archive_that_cannot_be_used(columns, tmp_path, shape):
    targets = write_targets(tmp_path / "targets.npz", {"positions": columns["positions"][:1]})
    content, said = targets.read_bytes(), b"(1, 3), }    "
    assert content.count(said) == 1
    targets.write_bytes(content.replace(said, (shape + b", }").ljust(len(said))))
    refused(r"targets.npz'", targets, tmp_path / "results")


def test_every_file_has_the_columns_of_the_first(short, tmp_path):
    first = write_targets(tmp_path / "first.parquet", short)
    second = write_targets(tmp_path / "second.npz", without(short, "initial_joint_q"))
    refused(r"second.npz' has no column 'initial_joint_q'", [first, second], tmp_path / "results")
    extra = r"first.parquet' has a column 'initial_joint_q', which .*second.npz' has not"
    refused(extra, [second, first], tmp_path / "results")


def test_columns_that_are_named_are_read_and_others_passed_over(short, tmp_path):
    others = {"number": np.arange(SHORT), "note": np.array("made today"), "objects": np.full(2, None)}
    targets = write_targets(tmp_path / "targets.npz", short | others)
    bare = without(short, "initial_joint_q")
    solve(targets, tmp_path / "results", columns=list(bare))
    np.testing.assert_array_equal(read_results(tmp_path / "results")["joint_q"], directly(bare).joint_q)
    lacking, named = write_targets(tmp_path / "bare.npz", bare), ["positions", "initial_joint_q"]
    refused("has no column 'initial_joint_q'", lacking, tmp_path / "r2", columns=named)
    refused("column 'number' is not known", targets, tmp_path / "r3", columns=["positions", "number"])


def test_empty_files_are_passed_over_and_nothing_else_is_refused(columns, tmp_path):
    empty = [write_targets(tmp_path / f"empty{kind}", rows(columns, slice(0))) for kind in (".npz", ".parquet")]
    refused(r"No targets in .*empty.npz.*empty.parquet", empty, tmp_path / "results")
    some = write_targets(tmp_path / "some.npz", rows(columns, slice(SHORT)))
    report = solve([empty[0], some, empty[1]], tmp_path / "results")
    assert (report.part_count, report.problem_count) == (1, SHORT)


def one_number_a_column(columns):
    """A table with a column for each number, as files of CSV have them."""
    numbers = {name: columns["positions"][:, k] for k, name in enumerate("xyz")}
    return numbers | {f"q{name}": columns["orientations_xyzw"][:, k] for k, name in enumerate("xyzw")}


@pytest.mark.parametrize("asked", [None, ["positions", "orientations_xyzw"]])
def test_parquet_may_have_the_columns_of_csv_and_an_id(short, tmp_path, asked):
    bare, numbers = without(short, "initial_joint_q"), tmp_path / "numbers.parquet"
    pq.write_table(pa.table(one_number_a_column(bare) | {"id": [f"row {k}" for k in range(SHORT)]}), numbers)
    assert solve(numbers, tmp_path / "results", columns=asked).passed_over == (() if asked else ("id",))
    answer = directly(bare)
    assert answer.success.all()
    np.testing.assert_array_equal(read_results(tmp_path / "results")["joint_q"], answer.joint_q)


def test_parquet_with_the_columns_of_csv_may_mix_types_and_lack_numbers(columns, tmp_path):
    table = one_number_a_column(rows(columns, slice(4))) | {"x": pa.array([0.4, None, 0.3, 0.2], pa.float32())}
    targets, results = tmp_path / "t.parquet", tmp_path / "results"
    pq.write_table(pa.table(table), targets)
    refused(r"t.parquet' row 1: positions\[0, 0\] is nan", targets, results, FailedPartsError)
    several = [LINK, "panda_link6"]
    refused(r"'positions' has shape \[n, 3\]. Give \[n, 2, 3\]", targets, results, targets=several)
    pq.write_table(pa.table(table | {"qx": ["a"] * 4}), targets)
    refused(r"t.parquet': column 'qx' is of type string. Give numbers", targets, results)
    pq.write_table(pa.table({name: table[name] for name in ("x", "y", "qx")}), targets)
    refused(r"column 'x' is not known", targets, results)


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_lists_become_arrays_whether_their_size_is_fixed_or_not(shape, dtype):
    array = np.arange(5 * np.prod(shape), dtype=dtype).reshape(5, *shape)
    for values in (lists(array), pa.array(array.tolist()), lists(array.reshape(5, -1))):
        np.testing.assert_array_equal(numbers_of(values.slice(1, 3), shape), array[1:4])
    assert numbers_of(lists(array), shape).dtype == (np.float32 if dtype == np.float32 else np.float64)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.data())
def test_rows_are_found_in_their_row_groups(tmp_path_factory, groups, data):
    count, rows = sum(groups), np.arange(3.0 * sum(groups)).reshape(-1, 3)
    path = tmp_path_factory.mktemp("groups") / "t.parquet"
    table = pa.table({"positions": lists(rows)})
    with pq.ParquetWriter(path, table.schema) as writer:
        for end, size in zip(np.cumsum(groups).tolist(), groups, strict=True):
            writer.write_table(table.slice(end - size, size))
    file = ParquetTargets(str(path))
    assert file.check({"positions": (3,)}) == count
    for _ in range(4):
        first = data.draw(st.integers(0, count - 1))
        end = data.draw(st.integers(first + 1, count))
        np.testing.assert_array_equal(file.read(first, end - first)["positions"], rows[first:end])


@given(st.lists(st.integers(0, 90), min_size=1, max_size=6).filter(any), st.integers(1, 30))
def test_parts_hold_all_rows_in_order_and_no_more_than_they_may(rows, most):
    files = tuple(InputFile(f"{k}.npz", count, 0, 0, "") for k, count in enumerate(rows))
    parts = BulkPlan(panda_job(["t.npz"], Path("results"), part_rows=most), "cpu", files, {}, ()).parts
    found = [(part.file, row) for part in parts for row in range(part.first_row, part.first_row + part.row_count)]
    assert found == [(file, row) for file in files for row in range(file.rows)]
    assert [part.first_problem for part in parts] == np.cumsum([0, *(part.row_count for part in parts)])[:-1].tolist()
    assert all(0 < part.row_count <= most for part in parts)


FAULTS = {
    "nan": ("positions", lambda row: row * [1, np.nan, 1], r"positions\[0, 1\] is nan"),
    "long_quaternion": ("orientations_xyzw", lambda row: row * 1.5, "of length 1.5"),
    "far_start": ("initial_joint_q", lambda row: np.append(row[:6], 1e12), "1000000000000"),
}


@KINDS
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_row_fails_its_part_alone_and_can_be_marked_later(columns, tmp_path, kind, fault):
    good, (name, spoilt, message) = directly(columns), FAULTS[fault]
    before = write_targets(tmp_path / "before.npz", rows(columns, slice(50)))
    columns[name][432] = spoilt(columns[name][432])
    inputs, folder = [before, write_targets(tmp_path / f"faulty{kind}", columns)], tmp_path / "results"
    named = rf"^1 of 7 parts failed.*faulty{kind}' row 432: .*{message}"
    report = refused(named, inputs, folder, FailedPartsError).report
    assert (list(report.failures), report.done) == ([5], 50 + COUNT - PART_ROWS)
    assert len(part_bytes(folder)) == 6
    report = solve(inputs, folder, mark_faulty=True)
    assert (report.resumed_parts, report.status_counts["invalid"]) == (6, 1)
    results = rows(read_results(folder), slice(50, None))
    others = np.arange(COUNT) != 432
    np.testing.assert_array_equal(results["joint_q"][others], good.joint_q[others])
    assert results["status"][432] == "invalid"
    assert (results["success"][432], results["iterations"][432], results["seed_index"][432]) == (False, 0, -1)
    assert np.isnan([*results["joint_q"][432], results["cost"][432], results["position_error_m"][432]]).all()
    solve(inputs, tmp_path / "fresh", mark_faulty=True)
    assert part_bytes(tmp_path / "fresh") == part_bytes(folder)


@KINDS
def test_a_part_of_faulty_rows_alone_can_be_marked(columns, tmp_path, kind):
    positions = columns["positions"][:6]
    positions[2:4] = np.nan
    targets, folder = write_targets(tmp_path / f"targets{kind}", {"positions": positions}), tmp_path / "results"
    refused(r"^1 of 3 parts failed.* row 2: positions", targets, folder, FailedPartsError, part_rows=2)
    assert solve(targets, folder, mark_faulty=True, part_rows=2).status_counts["invalid"] == 2
    assert (read_results(folder)["status"] == "invalid").tolist() == [False, False, True, True, False, False]


@pytest.mark.evidence
def test_a_quaternion_of_a_start_without_length_is_a_faulty_row(tmp_path):
    robot, folder = load_robot("humanoid"), tmp_path / "results"
    links = [robot.link_names[-1]]
    columns = random_columns(robot, links, 4)
    columns["initial_joint_q"][2, 3:7] = 0.0
    targets, given = write_targets(tmp_path / "targets.npz", columns), {"robot": robot, "targets": links}
    refused(r"row 2: .*length zero", targets, folder, FailedPartsError, **given)
    assert solve(targets, folder, mark_faulty=True, **given).status_counts["invalid"] == 1
    assert read_results(folder)["status"][2] == "invalid"


def test_a_list_that_is_missing_or_too_short_is_a_faulty_row(columns, tmp_path):
    positions = columns["positions"][:5].tolist()
    positions[1], positions[3], positions[4] = None, [0.1, 0.2], [0.1, None, 0.2]
    targets, folder = tmp_path / "lists.parquet", tmp_path / "results"
    pq.write_table(pa.table({"positions": positions}), targets)
    refused(r"lists.parquet' row 1: positions", targets, folder, FailedPartsError)
    solve(targets, folder, mark_faulty=True)
    assert (read_results(folder)["status"] == "invalid").tolist() == [False, True, False, True, True]
    pq.write_table(pa.table({"positions": [[0.1, 0.2]] * 5}), targets)
    another = r"lists.parquet' row 0: positions.* of another length"
    refused(another, targets, tmp_path / "others", FailedPartsError)


@pytest.mark.parametrize(("kind", "reader"), [(".parquet", ParquetTargets), (".npz", NpzTargets)])
def test_a_file_that_is_written_while_a_part_is_read_fails_what_is_left(columns, tmp_path, monkeypatch, kind, reader):
    targets, read = write_targets(tmp_path / f"targets{kind}", columns), reader.read

    def read_and_write(self, first, count):
        found = read(self, first, count)
        if first == PART_ROWS:
            targets.write_bytes(bytes(100))
        return found

    monkeypatch.setattr(reader, "read", read_and_write)
    changed = rf"^5 of 6 parts failed.*targets{kind}' has changed while the job"
    assert refused(changed, targets, tmp_path / "results", FailedPartsError).report.done == PART_ROWS
    assert list(part_bytes(tmp_path / "results")) == ["part-000000.parquet"]


def test_without_pyarrow_there_is_npz(short, tmp_path, monkeypatch):
    targets, advice = write_targets(tmp_path / "t.npz", short), r"pip install '\.\[bulk\]'"
    for name in ("pyarrow", "ik_service.integrations.bulk.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    refused(advice, targets, tmp_path / "results")
    refused(advice, Path("t.parquet"), tmp_path / "results", format="npz")
    assert solve(targets, tmp_path / "results", format="npz").solved > 0
