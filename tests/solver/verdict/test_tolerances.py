"""Answers to targets with tolerances and free axes are within what was asked, by kinematics of the tests."""

from dataclasses import dataclass

import numpy as np
import pytest

from ik_service import EngineError, SolverOptions, Target
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.solver.given.targets import as_target
from objectives import InputError
from tests.compiler.island_cases import TOOL, robots
from tests.objectives.loop_rows import matrix_of
from tests.objectives.near_rows import near_rows
from tests.solver.conftest import Reachable, assert_same_bytes, cpu_solver, pose_of, use_engine

HAND = "panda_hand"
OPTIONS = SolverOptions()
FEW_ITERATIONS = SolverOptions(seeds=1, max_iterations=1)  # so that errors are large
LINKS = {"floating": ("d", "f"), "panda": ("panda_hand", "panda_link3"), "followers": ("e", "b")}
FRAMES = ["reference", "target", "tool", "world"]
CONE = np.radians(10.0)


@dataclass(frozen=True)
class Gaps:
    """How far answers are from targets: along and about axes of the target [n, 3], and tilts of the z axes [n]."""

    shift: np.ndarray
    chord: np.ndarray
    tilt: np.ndarray


def gaps(robot, result, positions, orientations_xyzw):
    poses = robot.forward_kinematics(result.joint_q, [HAND])
    tool, aim = matrix_of(poses.orientations_xyzw[:, 0]), matrix_of(orientations_xyzw)
    pose = np.concatenate([poses.positions[:, 0], poses.orientations_xyzw[:, 0]], axis=1)
    rows = near_rows(pose, np.concatenate([positions, orientations_xyzw], axis=1), pose, "target", np.zeros(7))
    across = np.linalg.norm(np.cross(tool[:, :, 2], aim[:, :, 2]), axis=1)
    return Gaps(rows[:, :3], rows[:, 3:], np.arctan2(across, (tool[:, :, 2] * aim[:, :, 2]).sum(axis=1)))


@pytest.fixture(scope="module")
def rolled(panda):
    """Poses that the hand reaches, rolled about its own z axis by any angle."""
    half = 0.5 * np.random.default_rng(3).uniform(-np.pi, np.pi, 300)
    turns = np.zeros((300, 7))
    turns[:, 5], turns[:, 6] = np.sin(half), np.cos(half)
    poses = np.concatenate(Reachable.draw(panda, [HAND], 300, random_seed=3).targets, axis=2)[:, 0]
    poses = transform_multiply(poses, turns)
    return poses[:, :3], poses[:, 3:]


@pytest.mark.quick_cases("floating-staged-1-target", "followers-staged-1-target")
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(
    ("name", "engine", "threads"), [("floating", "staged", 1), ("followers", "staged", 1), ("panda", "compiled", 2)]
)
def test_errors_are_what_is_beyond_the_deadband_at_the_answer(small_parts, name, engine, threads, frame):
    robot, (link, reference), rng = robots()[name], LINKS[name], np.random.default_rng(4)
    count = 19
    tolerance = rng.uniform(0.1, 0.6, (count, 6))
    tolerance[::3, 4] = tolerance[::3, 3]
    tolerance[::3, 5] = np.inf  # a cone
    tolerance[1::3, 0] = np.inf
    tolerance[2] = 0.0
    positions, turns = rng.uniform(-1.0, 1.0, (count, 3)), rng.normal(size=(count, 4))
    turns /= np.linalg.norm(turns, axis=-1, keepdims=True)
    target = Target(link, TOOL, reference, tolerance=tolerance, frame=frame)
    solver = cpu_solver(robot, [target], engine=engine, threads=threads, options=FEW_ITERATIONS)
    result = solver.solve(positions, turns)
    base = pose_of(robot, result.joint_q, reference)
    seen = transform_multiply(transform_inverse(base), transform_multiply(pose_of(robot, result.joint_q, link), TOOL))
    checked = as_target(target, robot)
    deadband = checked.deadband(OPTIONS.position_tolerance, OPTIONS.orientation_tolerance).astype(np.float64)
    aims = np.concatenate([positions, turns], axis=1)
    each = (slice(k, k + 1) for k in range(count))
    rows = [near_rows(seen[k], aims[k], base[k], frame, deadband[k][0]) for k in each]
    rows = np.concatenate(rows) * (checked.weights() > 0.0)
    angles = 2.0 * np.arcsin(0.5 * np.linalg.norm(rows[:, 3:], axis=1))
    np.testing.assert_allclose(result.position_error[:, 0], np.linalg.norm(rows[:, :3], axis=1), atol=1e-12)
    np.testing.assert_allclose(result.orientation_error[:, 0], angles, atol=1e-7)  # sin(a / 2) is flat at half a turn
    assert (result.orientation_error > 0.1).any()
    assert not result.success.all()


@pytest.mark.evidence_cases("roll-auto", "cone-auto", "cone-threads")
@pytest.mark.parametrize(
    ("tilt", "way"),
    [(0.0, "auto"), (0.0, "staged"), (CONE, "auto"), (CONE, "threads"), (CONE, "staged")],
    ids=["roll-auto", "roll-staged", "cone-auto", "cone-threads", "cone-staged"],
)
def test_a_free_roll_leaves_the_axis_of_the_tool_where_it_is_to_be_or_in_a_cone(panda, rolled, monkeypatch, tilt, way):
    use_engine(way, monkeypatch)
    tolerance = {"tolerance": [0.0, 0.0, 0.0, tilt, tilt, 0.0]} if tilt else {}
    result = cpu_solver(panda, [Target(HAND, free=["rz"], **tolerance)]).solve(*rolled)
    found, met = gaps(panda, result, *rolled), result.success
    assert met.mean() > 0.99
    assert found.tilt[met].max() <= (tilt or OPTIONS.orientation_tolerance)
    assert np.linalg.norm(found.shift[met], axis=1).max() <= OPTIONS.position_tolerance
    assert np.abs(found.chord[met, 2]).max() > 1.0  # the roll is used,
    assert np.median(found.tilt[met]) > 0.5 * CONE or not tilt  # and so is the cone


@pytest.mark.evidence_cases("compiled-float32", "compiled-float64")
@pytest.mark.parametrize(
    ("engine", "precision"), [("compiled", "float32"), ("compiled", "float64"), ("staged", "float32")]
)
def test_a_box_in_the_target_is_kept_row_by_row(panda, rolled, engine, precision):
    tolerance = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.3])
    target = Target(HAND, tolerance=tolerance, frame="target")
    result = cpu_solver(panda, [target], engine=engine).solve(*rolled, options={"precision": precision})
    found, met = gaps(panda, result, *rolled), result.success
    assert met.mean() > 0.97
    assert (np.abs(found.shift[met]) <= tolerance[:3]).all()
    assert (np.abs(found.chord[met]) <= 2.0 * np.sin(0.5 * tolerance[3:])).all()


@pytest.mark.evidence
def test_a_frame_alone_says_of_which_axes_weights_are_and_derivatives_are_refused(panda, rolled):
    by_weight = cpu_solver(panda, [Target(HAND, row_weights=[1.0, 1.0, 1.0, 1.0, 1.0, 0.0], frame="tool")])
    solver = cpu_solver(panda, [Target(HAND, free=["rz"])])
    result = solver.solve(*rolled)
    assert_same_bytes(by_weight.solve(*rolled), result)
    with pytest.raises(EngineError, match="have no derivatives"):
        solver.linearise(result, *rolled)
    with pytest.raises(EngineError, match="have no derivatives"):
        solver.solve(*rolled, options={"sensitivity": "target"})


def test_islands_know_which_rows_are_free(panda):
    solver = cpu_solver(panda, [Target(HAND, free=["x", "y", "z", "rx", "ry", "rz"])])
    assert not solver.islands().islands
    with pytest.raises(InputError, match="declared without a tolerance"):
        cpu_solver(panda, [HAND]).set_target_data(0, tolerance=np.zeros(6))
