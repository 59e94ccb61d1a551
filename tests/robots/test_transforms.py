"""Arithmetic of transforms on the host."""

import numpy as np
import pytest

from ik_service.mechanism.transforms import cross


@pytest.mark.parametrize("shapes", [((3,), (3,)), ((1, 3), (1, 3)), ((3,), (50, 3)), ((7, 1, 3), (1, 5, 3))])
def test_cross_products_have_the_bytes_of_numpy(shapes):
    rng = np.random.default_rng(2)
    a, b = (rng.normal(size=shape) for shape in shapes)
    assert cross(a, b).tobytes() == np.ascontiguousarray(np.cross(a, b)).tobytes()
