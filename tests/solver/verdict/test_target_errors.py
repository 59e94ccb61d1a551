"""The errors that the verdict rests on: those of float64 kinematics at what is returned, whatever shares a packet."""

import numpy as np
import pytest

from ik_service import SolverOptions, Target
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.solver import recording
from tests.compiler.island_cases import TOOL, robots
from tests.solver.conftest import cpu_solver, pose_of

LINKS = {"floating": ("d", "f"), "panda": ("panda_hand", "panda_link3"), "followers": ("e", "b")}
FEW_ITERATIONS = SolverOptions(seeds=1, max_iterations=1)  # so that errors are large
COUNTS = (1, 2, 7, 8, 9, 19)


def errors_of(pose, position, orientation_xyzw, row_weights):
    """Distance and angle over the axes that have a weight, of one problem; NaN where none has."""
    x, y, z, w = pose[3:]
    a, b, c, d = orientation_xyzw
    product = np.array(
        [  # the rotation from the one to the other
            -w * a + x * d - y * c + z * b,
            -w * b + x * c + y * d - z * a,
            -w * c - x * b + y * a + z * d,
            w * d + x * a + y * b + z * c,
        ]
    )
    product *= np.sign(product[3])
    vector = product[:3] / np.linalg.norm(product[:3]) * 2.0 * np.arctan2(np.linalg.norm(product[:3]), product[3])
    gaps = np.concatenate([pose[:3] - position, vector]).reshape(2, 3)
    counts = np.asarray(row_weights).reshape(2, 3) > 0.0
    return [np.linalg.norm(gap[own]) if own.any() else np.nan for gap, own in zip(gaps, counts, strict=True)]


@pytest.mark.evidence_cases("panda-compiled-1")
@pytest.mark.parametrize(
    ("name", "engine", "threads"),
    [("floating", "staged", 1), ("followers", "staged", 1), ("panda", "compiled", 1), ("panda", "compiled", 3)],
)
def test_errors_are_those_of_kinematics_at_the_answer(monkeypatch, name, engine, threads):
    monkeypatch.setattr(recording, "PART_MIN", 2)  # so that parts end inside packets
    robot, (link, reference), rng = robots()[name], LINKS[name], np.random.default_rng(4)
    most = max(COUNTS)
    tools = np.tile(TOOL, (most, 1))
    tools[:, :3] += rng.uniform(-0.1, 0.1, (most, 3))
    patterns = [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 0, 1]]
    weights = np.array(patterns, float)[np.arange(most) % len(patterns)]
    positions = rng.uniform(-1.0, 1.0, (most, 2, 3))
    turns = rng.normal(size=(most, 2, 4))
    turns /= np.linalg.norm(turns, axis=-1, keepdims=True)
    for count in COUNTS:
        own = weights[:count]
        targets = [Target(link, offset=tools[:count], row_weights=own), Target(link, reference_link=reference)]
        options = {"engine": engine, "threads": threads, "options": FEW_ITERATIONS}
        solver = cpu_solver(robot, targets, **options)
        result = solver.solve(positions[:count], turns[:count])
        at_link, at_reference = (pose_of(robot, result.joint_q, one) for one in (link, reference))
        for p in range(count):
            first = transform_multiply(at_link[p], tools[p])
            second = transform_multiply(transform_inverse(at_reference[p]), at_link[p])
            expected = [
                errors_of(first, positions[p, 0], turns[p, 0], own[p]),
                errors_of(second, positions[p, 1], turns[p, 1], np.ones(6)),
            ]
            got = np.column_stack([result.position_error[p], result.orientation_error[p]])
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-13, err_msg=f"problem {p} of {count}")
