"""How answers follow their targets, in C: the bytes of Python, beside `linearise`, flagged where there is none."""

import ctypes
import re
import shutil

import numpy as np
import pytest

import ik_service
from ik_service import SolverOptions, Target
from ik_service.errors import EngineError
from ik_service.export import export_solver
from ik_service.export.objects import compile_object
from ik_service.export.sensitivity_entry import SensitivityEntry
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.robots import load_urdf
from ik_service.solver.derivatives.target_motion import motion_kernel, stack_bytes
from tests.export.c_library import BAD_ARGUMENT, BAD_NUMBER, GUARD, OK, SMALL_WORKSPACE, Guarded, loaded, run
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


def two_arms(**given):
    return load_urdf(TWO_ARMS + "</robot>", **given)


TOOL = np.r_[0.05, 0.02, 0.1, np.array([0.1, 0.2, 0.3, 1.0]) / np.linalg.norm([0.1, 0.2, 0.3, 1.0])]
IN_PLANE = (1.0, 1.0, 0.0, 0.0, 0.0, 0.0)
ROBOTS = {  # with targets, options, and whether targets have orientations
    "ur5e": (lambda: ik_service.load_robot("ur5e", collision="ignore"), ["tool0"], {}, True),
    "arms": (two_arms, ["a_tip", "b_tip"], {}, False),
    "related": (
        two_arms,
        [Target("a_tip", reference_link="b_tip", offset=TOOL, row_weights=IN_PLANE)],
        {"joint_limits": "off"},
        True,
    ),
    "free": (lambda: two_arms(floating_base=True), [Target("a_tip", offset=TOOL), "b_tip"], {}, False),
}


@pytest.fixture(scope="module")
def derivatives(tmp_path_factory):
    made = {}

    def make(name):
        if name not in made:
            robot, targets, options, orientations = ROBOTS[name]
            solver = ik_service.IKSolver(
                robot(), targets, device="cpu", engine="compiled", options=SolverOptions(**options)
            )
            made[name] = Derivatives(solver, name, tmp_path_factory.mktemp(name), orientations)
        return made[name]

    return make


def poses_of(own, joint_q):
    """Poses of the tools, in the frames that targets are given in: positions and orientations."""
    robot, found = own.solver.robot, []
    for target in own.solver.targets:
        pose = np.concatenate(robot.forward_kinematics(joint_q, [target.link]), axis=-1)[:, 0]
        if target.offset is not None:
            pose = transform_multiply(pose, np.broadcast_to(target.offset, pose.shape))
        if target.reference_link is not None:
            frame = np.concatenate(robot.forward_kinematics(joint_q, [target.reference_link]), axis=-1)[:, 0]
            pose = transform_multiply(transform_inverse(frame), pose)
        found.append(pose)
    return np.stack(found, axis=1)[..., :3], np.stack(found, axis=1)[..., 3:]


def answers(own, seed=0):
    joint_q = own.solver.robot.random_joint_q(np.random.default_rng(seed), COUNT).astype(np.float32)
    return joint_q, *poses_of(own, joint_q)


@pytest.mark.evidence
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


@pytest.mark.evidence_cases("arms", "free", "related")
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
    assert np.abs(found[both]).max(axis=(1, 2, 3)).min() > 0.1
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


@pytest.mark.evidence
def test_a_joint_at_its_limit_stays(derivatives):
    own = derivatives("free")
    joint_q, robot = answers(own)[0][:4].copy(), own.solver.robot
    yaw, pitch = (robot.dof_names.index(name) for name in ("a_yaw", "a_pitch"))
    joint_q[:, robot.dof_coordinate[yaw]] = robot.joint_limit_upper[yaw]
    code, found, flags = own(joint_q, *poses_of(own, joint_q))
    assert code == OK
    assert flags.all()
    assert not found[:, yaw].any()
    assert found[:, pitch].any(axis=(1, 2)).all()


@pytest.mark.evidence
def test_without_limits_it_follows(derivatives):
    own = derivatives("related")
    joint_q = answers(own)[0][:4].copy()
    joint_q[:, 0] = own.solver.robot.joint_limit_upper[0]
    code, found, flags = own(joint_q, *poses_of(own, joint_q))
    assert code == OK
    assert flags.all()
    assert found[:, 0].any(axis=(1, 2)).all()


@pytest.mark.evidence
@pytest.mark.parametrize(("apart", "is_met"), [(0.0, True), (0.99, True), (-0.99, True), (1.01, False), (-1.01, False)])
def test_targets_are_met_up_to_a_step_of_a_centimetre(derivatives, apart, is_met):
    """The shortest step onto them is that of the slider that they are away by."""
    own = derivatives("arms")
    joint_q, robot = answers(own)[0][:5].copy(), own.solver.robot
    slide = robot.coordinate_names.index("a_slide")
    joint_q[:, slide] = 0.3
    joint_q = robot.complete_joint_q(joint_q).astype(np.float32)
    reached = joint_q.astype(np.float64)
    reached[:, slide] += 0.01 * apart
    code, found, flags = own(joint_q, *poses_of(own, robot.complete_joint_q(reached)))
    assert code == OK
    assert flags.tolist() == [is_met] * 5
    assert found.any() == is_met


def test_what_it_does_not_take_is_said(derivatives):
    own = derivatives("ur5e")
    given = [one[:2].copy() for one in answers(own)]
    assert own(*given, less=64)[0] == SMALL_WORKSPACE
    for place, value in ((0, np.nan), (1, np.inf), (2, 3.0)):
        wrong = [one.copy() for one in given]
        wrong[place].flat[-1] = value
        code, found, _ = own(*wrong)
        assert code == BAD_NUMBER
        assert set(found.tobytes()) == {GUARD}  # as it was
    for length, expected in ((1.0 + 0.9e-3, OK), (1.0 - 1.1e-3, BAD_NUMBER)):
        assert own(*given[:2], length * given[2])[0] == expected
    assert own._function(-1, None, None, None, None, None, None, 0) == BAD_ARGUMENT
    assert own._function(1, None, None, None, None, None, None, 0) == BAD_ARGUMENT
    assert own._function(0, None, None, None, None, None, None, 0) == OK


@pytest.mark.evidence_cases("arms", "free", "related")
@pytest.mark.parametrize("name", ROBOTS)
def test_its_example_has_the_same_bytes(derivatives, name):
    own = derivatives(name)
    objects = [path.name for path in own.folder.glob("*.o")]
    run(["gcc", "-O2", "example_sensitivity.c", f"{name}_ik.c", *objects, "-lm", "-o", "example"], own.folder)
    assert "same bytes as in Python: yes" in run(["./example", "answers.bin"], own.folder)
    numbers = np.frombuffer((own.folder / "answers.bin").read_bytes()[-8 * COUNT * int(np.prod(own.shape)) :])
    assert numbers.reshape(COUNT, -1).any(axis=1).mean() > 0.9


def entry_of(robot, targets, **given):
    solver = ik_service.IKSolver(robot, targets, device="cpu", engine="compiled")
    return SensitivityEntry(solver, "robot", **{"orientations": True, "count": 1, **given})


SLIDERS = """<robot name="sliders"><link name="base"/><link name="a"/><link name="tip"/>
<joint name="x" type="prismatic"><parent link="base"/><child link="a"/><axis xyz="1 0 0"/>
  <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
<joint name="y" type="{kind}"><parent link="a"/><child link="tip"/><origin xyz="0.3 0 0"/><axis xyz="{axis}"/>
  <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
</robot>"""


@pytest.mark.evidence
@pytest.mark.parametrize(("kind", "axis"), [("prismatic", "0 1 0"), ("revolute", "0 0 1")])
def test_robots_that_cannot_move_all_rows_of_their_targets_are_refused(kind, axis):
    robot = load_urdf(SLIDERS.format(kind=kind, axis=axis))
    with pytest.raises(EngineError, match=r"\(tip\) the joints cannot move every row"):
        entry_of(robot, ["tip"])
    given = {"prismatic": IN_PLANE, "revolute": (1.0, 0.0, 0.0, 0.0, 0.0, 1.0)}[kind]
    entry = entry_of(robot, [Target("tip", row_weights=given)])
    joint_q = np.array([[0.1, 0.2]])
    found, exists = entry.derived(joint_q, *robot.forward_kinematics(joint_q, ["tip"]))
    assert exists.all()
    assert found[0, 0, 0, 0] == pytest.approx(1.0)


def test_robots_that_are_singular_in_the_middle_are_not_refused():
    robot = ik_service.load_robot("ur5e", collision="ignore")
    middle = robot.mid_joint_q[None]
    entry, poses = entry_of(robot, ["tool0"]), robot.forward_kinematics(middle, ["tool0"])
    assert not entry.derived(middle, *poses)[1].any()
    beside = middle + np.array([0.1, -0.9, 0.8, 0.3, 0.4, 0.2])
    assert entry.derived(beside, *robot.forward_kinematics(beside, ["tool0"]))[1].all()


def many_arms(arms, links=7):
    """Arms on one waist, which make one island."""
    text = '<robot name="many"><link name="base"/>' + ARM_JOINT.format(name="waist", parent="base", y=0.0, axis="0 0 1")
    for arm in range(arms):
        parent = "waist"
        for k in range(links):
            axis = ("1 0 0", "0 1 0", "0 0 1")[(arm + k) % 3]
            name = f"arm_{arm}_{k}"
            text += ARM_JOINT.format(name=name, parent=parent, y=0.05 * arm, axis=axis)
            parent = name
    return load_urdf(text + "</robot>"), [f"arm_{arm}_{links - 1}" for arm in range(arms)]


ARM_JOINT = """<link name="{name}"/>
<joint name="j_{name}" type="revolute"><parent link="{parent}"/><child link="{name}"/><origin xyz="0.1 {y} 0.05"/>
<axis xyz="{axis}"/><limit lower="-2" upper="2" effort="1" velocity="1"/></joint>"""


@pytest.mark.evidence
def test_islands_that_take_too_much_stack_are_refused():
    with pytest.raises(EngineError, match=r"bytes of stack\. Allowed in C: 49152"):
        entry_of(*many_arms(6))
    assert entry_of(*many_arms(2)).recorded.steps


@pytest.mark.evidence
@pytest.mark.parametrize("sizes", [(1, 7, 7), (1, 7, 30), (2, 14, 8), (3, 22, 8)])
def test_stack_is_what_it_is_taken_for(sizes, tmp_path):
    if shutil.which("objdump") is None:
        pytest.skip("objdump is not installed, which shows how much stack an object takes.")
    made = compile_object("robot_sensitivity", "robot", {"robot_kernel": motion_kernel(*sizes)})
    (tmp_path / "kernel.o").write_bytes(made.content)
    steps = re.findall(r"sub\s+\$0x([0-9a-f]+),%rsp", run(["objdump", "-d", "kernel.o"], tmp_path))
    taken = sum(int(step, 16) for step in steps)
    assert 0.6 * stack_bytes(*sizes) < taken <= stack_bytes(*sizes)


def test_robots_that_close_loops_are_refused():
    robot = ik_service.load_robot("four_bar")
    solver = ik_service.IKSolver(robot, [robot.link_names[-1]], device="cpu", engine="compiled")
    with pytest.raises(EngineError, match="closes loops"):
        export_solver(solver, orientations=False, sensitivity=True)


def test_targets_with_tolerances_are_refused():
    robot = ik_service.load_robot("panda", collision="ignore")
    solver = ik_service.IKSolver(robot, [Target("panda_hand", free=["rz"])], device="cpu")
    with pytest.raises(EngineError, match="have no derivatives"):
        export_solver(solver, prefix="near", problem_count=10, sensitivity=True)
