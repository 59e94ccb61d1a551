"""Targets of a Panda and their results."""

import pytest

from tests.integrations.bulk.bulk_files import part_bytes, random_columns, solve, write_targets


@pytest.fixture
def columns():
    return random_columns()


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    return write_targets(tmp_path_factory.mktemp("targets") / "targets.parquet", random_columns())


@pytest.fixture(scope="module")
def whole(targets, tmp_path_factory):
    """Results of a job that nothing disturbed, in this process."""
    folder = tmp_path_factory.mktemp("whole") / "results"
    solve(targets, folder)
    return folder


@pytest.fixture(scope="module")
def whole_bytes(whole):
    return part_bytes(whole)
