"""How answers follow their targets, in C: the bytes of Python, beside `linearise`, flagged where there is none."""

import ctypes

import numpy as np
import pytest

import ik_service
from ik_service.errors import EngineError
from ik_service.export import export_solver
from ik_service.export.entries.sensitivity_entry import SensitivityEntry
from ik_service.robots import load_urdf
from tests.export.c_library import BAD_ARGUMENT, BAD_NUMBER, OK, SMALL_WORKSPACE, Guarded, loaded, run
from tests.export.conftest import TWO_ARMS

COUNT = 300


class Derivatives:
    """The function of an export, called with NumPy arrays."""

    def __init__(self, solver, prefix, folder, orientations):
        self.orientations = orientations
        self.solver, self.folder, self.shape = solver, folder, (solver.robot.joint_dof_count, len(solver.targets), 6)
        export_solver(solver, prefix=prefix, orientations=orientations, sensitivity=True, problem_count=COUNT).write(
            folder
        )
        linked = loaded(prefix, folder)
        self._size = getattr(linked, f"{prefix}_sensitivity_workspace_size")
        self._size.restype, self._size.argtypes = ctypes.c_size_t, [ctypes.c_int32]
        self._function = getattr(linked, f"{prefix}_sensitivity")
        self._function.argtypes = [ctypes.c_int32, *[ctypes.c_void_p] * 6, ctypes.c_size_t]

    def __call__(self, joint_q, positions, orientations, shift=0, less=0):
        given = [np.array(joint_q, np.float32), np.array(positions, np.float64), np.array(orientations, np.float64)]
        count = len(given[0])
        before, size = [one.copy() for one in given], self._size(count)
        found, flags, workspace = Guarded(count * 8 * int(np.prod(self.shape))), Guarded(count), Guarded(size, shift)
        out = [one.bytes.ctypes.data for one in (found, flags, workspace)]
        code = self._function(count, *(one.ctypes.data for one in given), *out, size - less)
        assert all(one.is_intact() for one in (found, flags, workspace))
        assert all(np.array_equal(one, own, equal_nan=True) for one, own in zip(given, before, strict=True))
        return code, np.frombuffer(found.bytes.tobytes()).reshape(count, *self.shape), flags.bytes.astype(bool)


ROBOTS = {  # with the links of targets, and whether these have orientations
    "ur5e": (lambda: ik_service.load_robot("ur5e", collision="ignore"), ["tool0"], True),
    "arms": (lambda: load_urdf(TWO_ARMS + "</robot>"), ["a_tip", "b_tip"], False),
}


@pytest.fixture(scope="module")
def derivatives(tmp_path_factory):
    made = {}

    def make(name):
        if name not in made:
            robot, links, orientations = ROBOTS[name]
            solver = ik_service.IKSolver(robot(), links, device="cpu", engine="compiled")
            made[name] = Derivatives(solver, name, tmp_path_factory.mktemp(name), orientations)
        return made[name]

    return make


def answers(own, seed=0):
    links = [target.link for target in own.solver.targets]
    joint_q = own.solver.robot.random_joint_q(np.random.default_rng(seed), COUNT).astype(np.float32)
    return joint_q, *own.solver.robot.forward_kinematics(joint_q, links)


@pytest.mark.parametrize("name", ROBOTS)
def test_it_answers_with_the_bytes_of_python(derivatives, name):
    own = derivatives(name)
    given = answers(own)
    code, found, flags = own(*given)
    entry = SensitivityEntry(own.solver, name, orientations=own.orientations, count=1)
    turns = given[2] if own.orientations else np.tile([0.0, 0.0, 0.0, 1.0], (*given[2].shape[:2], 1))
    expected, exists = entry.derived(*given[:2], turns)
    assert code == OK
    assert found.tobytes() == expected.tobytes()
    assert flags.tolist() == exists.tolist()
    for k in (0, 17):
        alone = own(*(one[k : k + 1] for one in given), shift=k)
        assert alone[1].tobytes() == found[k].tobytes()


@pytest.mark.parametrize("name", ROBOTS)
def test_they_are_those_of_linearise(derivatives, name):
    own = derivatives(name)
    joint_q, *poses = answers(own)
    targets = poses if own.orientations else poses[:1]
    result = own.solver.solve(*targets, initial_joint_q=joint_q)
    code, found, flags = own(result.joint_q, *poses)
    expected = own.solver.linearise(result, *targets)
    both = flags & expected.is_differentiable & (np.abs(expected.by_targets).max(axis=(1, 2, 3)) < 10.0)
    assert code == OK
    assert both.mean() > 0.5
    np.testing.assert_allclose(found[both], expected.by_targets[both], atol=1e-3)


def test_what_is_not_met_or_singular_has_zeros(derivatives):
    own = derivatives("ur5e")
    joint_q, positions, orientations = (one[:3].copy() for one in answers(own, 3))
    joint_q[1] = [0.3, -1.2, 0.0, -0.5, 0.4, 0.2]  # the elbow is straight
    poses = own.solver.robot.forward_kinematics(joint_q[1:2], ["tool0"])
    positions[1], orientations[1] = poses.positions[0], poses.orientations_xyzw[0]
    positions[2, 0, 0] += 0.5
    code, found, flags = own(joint_q, positions, orientations)
    assert code == OK
    assert flags.tolist() == [True, False, False]
    assert found[0].any()
    assert not found[1:].any()


def test_a_joint_at_its_limit_stays(derivatives):
    own = derivatives("arms")
    joint_q, positions, orientations = (one[:4].copy() for one in answers(own))
    robot = own.solver.robot
    joint_q[:, 0] = robot.joint_limit_upper[0]
    positions, orientations = robot.forward_kinematics(joint_q, ["a_tip", "b_tip"])
    code, found, _ = own(joint_q, positions, orientations)
    assert code == OK
    assert not found[:, 0].any()


def test_what_it_does_not_take_is_said(derivatives):
    own = derivatives("ur5e")
    given = [one[:2].copy() for one in answers(own)]
    assert own(*given, less=64)[0] == SMALL_WORKSPACE
    for place, value in ((0, np.nan), (1, np.inf), (2, 3.0)):
        wrong = [one.copy() for one in given]
        wrong[place].flat[-1] = value
        assert own(*wrong)[0] == BAD_NUMBER
    assert own._function(-1, None, None, None, None, None, None, 0) == BAD_ARGUMENT
    assert own._function(1, None, None, None, None, None, None, 0) == BAD_ARGUMENT
    assert own._function(0, None, None, None, None, None, None, 0) == OK


def test_its_example_has_the_same_bytes(derivatives):
    own = derivatives("arms")
    objects = [path.name for path in own.folder.glob("*.o")]
    run(["gcc", "-O2", "example_sensitivity.c", "arms_ik.c", *objects, "-lm", "-o", "example"], own.folder)
    assert "same bytes as in Python: yes" in run(["./example", "answers.bin"], own.folder)


def test_robots_that_close_loops_are_refused():
    robot = ik_service.load_robot("four_bar")
    solver = ik_service.IKSolver(robot, [robot.link_names[-1]], device="cpu", engine="compiled")
    with pytest.raises(EngineError, match="closes loops"):
        export_solver(solver, orientations=False, sensitivity=True)
