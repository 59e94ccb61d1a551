"""Where the parts of a bulk job begin, and how row groups become rows."""

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ik_service import SolverOptions
from ik_service.integrations.bulk import plan as plan_module
from ik_service.integrations.bulk import solve_job
from ik_service.integrations.bulk.arrow_lists import numbers_of
from ik_service.integrations.bulk.parts import part_rows
from ik_service.integrations.bulk.plan import BulkPlan
from ik_service.integrations.bulk.target_file import groups_of
from objectives import InputError
from tests.integrations.bulk.bulk_files import lists, panda_job, write_targets

GROUPS = st.lists(st.integers(0, 40), max_size=12)


@given(GROUPS, st.integers(1, 30))
def test_parts_hold_all_rows_and_no_more_than_they_may(groups, most):
    parts = list(part_rows(groups, most))
    assert sum(parts) == sum(groups)
    assert all(0 < rows <= most for rows in parts)
    if max(groups, default=0) <= most:  # whole groups only
        assert set(np.cumsum(parts)) <= set(np.cumsum(groups))


@given(GROUPS.filter(lambda groups: sum(groups) > 0), st.data())
def test_rows_are_found_in_their_row_groups(groups, data):
    first = data.draw(st.integers(0, sum(groups) - 1))
    count = data.draw(st.integers(1, sum(groups) - first))
    begin, end, start = groups_of(groups, first, count)
    assert start == sum(groups[:begin]) <= first
    assert sum(groups[:end]) >= first + count
    assert start + groups[begin] > first  # none too many
    assert sum(groups[: end - 1]) < first + count


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_lists_become_arrays_whether_their_size_is_fixed_or_not(shape, dtype):
    array = np.arange(5 * np.prod(shape), dtype=dtype).reshape(5, *shape)
    wanted = np.float32 if dtype == np.float32 else np.float64
    for values in (lists(array), pa.array(array.tolist()), lists(array.reshape(5, -1))):
        found = numbers_of(values.slice(1, 3), shape)
        np.testing.assert_array_equal(found, array[1:4])
    assert numbers_of(lists(array), shape).dtype == wanted


def test_options_may_be_scalars_of_numpy(tmp_path):
    targets = write_targets(tmp_path / "targets.npz", {"positions": np.full((3, 3), 0.3)})
    options = SolverOptions(seeds=np.int64(8), position_tolerance=np.float32(0.125))
    plain = SolverOptions(seeds=8, position_tolerance=0.125)
    plan = BulkPlan.of(panda_job([targets], tmp_path / "results", options=options), "cpu")
    wanted = BulkPlan.of(panda_job([targets], tmp_path / "results", options=plain), "cpu")
    assert json.loads(json.dumps(plan.description())) == wanted.description()


def test_more_parts_than_their_names_can_order_are_refused_before_anything_is_solved(tmp_path, monkeypatch):
    positions = np.full((40, 3), 0.3)
    files = [write_targets(tmp_path / f"{name}.npz", {"positions": positions}) for name in "ab"]
    plan = BulkPlan.of(panda_job(files, tmp_path / "results", part_rows=30), "cpu")
    last = dataclasses.replace(plan.parts[-1], number=plan_module.PARTS_MAX - 1)
    first_with_more_digits = dataclasses.replace(last, number=plan_module.PARTS_MAX)
    assert plan.part_path(plan.parts[0]).name == "part-000000.parquet" < plan.part_path(last).name
    assert plan.part_path(first_with_more_digits) < plan.part_path(last)  # so it must not be
    monkeypatch.setattr(plan_module, "PARTS_MAX", 3)
    for rows, count in ((30, 4), (2, 40)):  # too many by the files, and by the rows alone
        with pytest.raises(InputError, match=rf"{count} parts or more at part_rows {rows}. Allowed: 3. Give larger"):
            solve_job(panda_job(files, tmp_path / "results", part_rows=rows))
    assert not (tmp_path / "results").exists()
    assert len(BulkPlan.of(panda_job(files, tmp_path / "results", part_rows=40), "cpu").parts) == 2
