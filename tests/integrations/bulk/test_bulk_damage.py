"""Bulk jobs: bytes that do not have their checksum, and results that belong elsewhere, are errors with a name."""

import pytest

from ik_service import SolverOptions, load_robot
from ik_service.integrations.bulk import FailedPartsError, solve_job
from objectives import InputError
from tests.integrations.bulk.bulk_files import (
    COUNT,
    LINK,
    PART_ROWS,
    panda_job,
    part_bytes,
    random_columns,
    write_targets,
)


@pytest.fixture(scope="module")
def columns():
    return random_columns(load_robot("panda"), [LINK], COUNT)


def flip_a_bit(path, offset):
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def test_an_array_that_has_not_its_checksum_is_refused_with_its_name(columns, tmp_path):
    targets = write_targets(tmp_path / "t.npz", columns)
    flip_a_bit(targets, targets.read_bytes().index(columns["orientations_xyzw"][300].tobytes()))
    with pytest.raises(InputError, match=r"t.npz': column 'orientations_xyzw' is damaged"):
        solve_job(panda_job([targets], tmp_path / "results"))
    assert not (tmp_path / "results").exists()
    solve_job(panda_job([targets], tmp_path / "results", columns=["positions"]))  # of what is read


def test_a_page_of_parquet_that_has_not_its_checksum_fails_its_part(columns, tmp_path):
    options = {"compression": "none", "use_dictionary": False, "row_group_size": PART_ROWS}
    targets = write_targets(tmp_path / "t.parquet", columns, write_page_checksum=True, **options)
    flip_a_bit(targets, targets.read_bytes().index(columns["positions"][300].tobytes()))
    with pytest.raises(FailedPartsError, match=r"t.parquet' cannot be read in row groups 3 to 3: .*CRC") as caught:
        solve_job(panda_job([targets], tmp_path / "results"))
    assert list(caught.value.report.failures) == [3]


@pytest.mark.parametrize("kind", ["parquet", "npz"])
def test_results_of_another_place_or_job_are_not_taken_for_those_of_this(columns, tmp_path, kind):
    targets = write_targets(tmp_path / "t.npz", columns)
    job = panda_job([targets], tmp_path / "results", format=kind)
    solve_job(job)
    whole = part_bytes(tmp_path / "results")
    paths = [tmp_path / "results" / name for name in sorted(whole)]
    paths[1].write_bytes(paths[0].read_bytes())
    with pytest.raises(InputError, match=rf"'{paths[1]}' holds results of part 0 of this job"):
        solve_job(job)
    other = panda_job([targets], tmp_path / "other", format=kind, options=SolverOptions(random_seed=1))
    solve_job(other)
    paths[1].write_bytes((tmp_path / "other" / paths[1].name).read_bytes())
    with pytest.raises(InputError, match=rf"'{paths[1]}' holds results of another job"):
        solve_job(job)
    paths[1].unlink()
    assert solve_job(job).resumed_parts == len(paths) - 1
    assert part_bytes(tmp_path / "results") == whole
