"""Numeric columns: what they accept, exactly."""

import numpy as np
import pytest

from ik_service.service.documents.columns import check_unit_quaternions, read_matrices, read_rows
from ik_service.service.errors.exceptions import FaultyFieldsError
from ik_service.service.schema.limits import MAX_VALUE


def fault_of(read, *given):
    with pytest.raises(FaultyFieldsError) as caught:
        read(*given)
    return caught.value.faults[0].pointer, caught.value.faults[0].code


def test_quaternions_close_to_unit_alone_pass():
    for length in (1.0, 1.0 + 0.9e-3, 1.0 - 0.9e-3):
        check_unit_quaternions(np.array([[0.0, 0.0, 0.0, length]]), "/q")
    for length in (0.0, 1.0 + 1.1e-3, 1.0 - 1.1e-3):
        quaternions = np.array([[0, 0, 0, 1.0], [0.0, 0.0, 0.0, length]])
        assert fault_of(check_unit_quaternions, quaternions, "/q")[0] == "/q/1"


def test_numbers_larger_than_any_integer_type_are_out_of_range():
    assert fault_of(read_rows, [[0, 2**63, 0], [0, 0, 2**64]], 3, "/p") == ("/p/0/1", "out_of_range")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_numbers_up_to_the_limit_pass_and_the_next_one_does_not(dtype, sign):
    rows = np.full((100, 3), sign * MAX_VALUE, dtype)  # each is allowed, and their squares sum up to far more
    assert read_rows(rows, 3, "/p") is rows
    rows[7, 2] = np.nextafter(rows[7, 2], dtype(sign * np.inf))
    for column in (rows, rows[7:8]):
        assert fault_of(read_rows, column, 3, "/p")[1] == "out_of_range"


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e30])
def test_numbers_that_are_not_finite_are_found_beside_any_others(number):
    rows = np.zeros((5, 3), np.float32)
    rows[3, 1] = number
    assert fault_of(read_rows, rows, 3, "/p") == ("/p/3/1", "out_of_range" if number == 1e30 else "not_finite")


def test_matrices_are_the_poses_that_they_mean():
    matrix = [[0, -1, 0, 0.4], [1, 0, 0, 0.1], [0, 0, 1, 0.5], [0, 0, 0, 1]]
    for given in ([matrix, matrix], np.array([matrix, matrix], np.float64)):
        positions, orientations = read_matrices(given, "/m")
        np.testing.assert_array_equal(positions, [[0.4, 0.1, 0.5]] * 2)
        np.testing.assert_allclose(orientations, [[0, 0, np.sqrt(0.5), np.sqrt(0.5)]] * 2, atol=1e-15)


@pytest.mark.parametrize(
    ("matrices", "pointer", "code"),
    [
        (None, "/m", "wrong_type"),
        ([], "/m", "empty_batch"),
        ([np.eye(4).tolist(), 5], "/m/1", "wrong_shape"),
        ([np.eye(3).tolist()], "/m/0", "wrong_shape"),
        ([[*np.eye(4).tolist()[:3], [0, 0, 1]]], "/m/0/3", "wrong_shape"),
        ([[*np.eye(4).tolist()[:3], [0, 0, 0, "1"]]], "/m/0/3/3", "wrong_type"),
        (np.zeros((2, 3, 4)), "/m", "wrong_shape"),
        ([np.eye(4).tolist(), (2.0 * np.eye(4)).tolist()], "/m/1", "invalid_value"),
        ([np.diag([1.0, 1.0, -1.0, 1.0]).tolist()], "/m/0", "invalid_value"),  # left-handed
        ([np.diag([1.01, 1.01, 1.01, 1.0]).tolist()], "/m/0", "invalid_value"),  # scaled
        ([np.eye(4).tolist(), [*np.eye(4).tolist()[:2], [0, 0, 1, 1e30], [0, 0, 0, 1]]], "/m/1/2/3", "out_of_range"),
    ],
)
def test_matrices_that_are_no_poses_are_named(matrices, pointer, code):
    assert fault_of(read_matrices, matrices, "/m") == (pointer, code)
