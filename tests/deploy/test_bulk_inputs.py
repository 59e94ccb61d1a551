"""Bulk jobs whose inputs change, hold too little, or hold more than is read."""

import os

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.deploy.bulk import solve_job
from ik_service.deploy.bulk.target_files import open_targets
from objectives import InputError
from tests.deploy.bulk_files import LINK, panda_job, part_bytes, random_columns, write_targets

SHORT = 30
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
