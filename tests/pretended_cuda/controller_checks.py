"""Ticks on the pretended device: the commands of the CPU, whatever the schedule, also beside a solver that records.

Ticks are in float64 on both, so commands agree to `SAME`; between schedules all bytes are equal.
"""

import threading
import time

import numpy as np
import pytest
import warp as wp
from ik_service.solver.launches import recording

import ik_service
from ik_service.collision.shapes import Sphere
from ik_service.collision.world import World
from ik_service.control import ControlLimits, IKController
from ik_service.errors import EngineError
from objectives import IKObjectivePosture
from tests.control.conftest import gantry_text, pose_of
from tests.pretended_cuda.device import SCHEDULES
from tests.solver.conftest import Reachable

GPU, CPU = "cuda:0", "cpu"
SAME = 1e-8  # [m, rad, m/s or rad/s]: two compilers fuse float64 in other places, and speeds are steps over a 1 ms tick
SAME_YIELDING = 1e-6  # [rad]: where a target is met, how a posture yields to it hangs on the rounding of what is left
DT = 1e-3
TICKS = 6
START = np.array([0.1, 0.2, -0.1, -1.6, 0.1, 1.9, 0.6])
SLOW = 0.5  # [rad/s]


@pytest.fixture(scope="module")
def panda():
    return ik_service.load_robot("panda", collision="ignore")


@pytest.fixture(scope="module")
def gantry(tmp_path_factory):
    """Three sliders and a pivot that no task moves."""
    path = tmp_path_factory.mktemp("robot") / "gantry.urdf"
    path.write_text(gantry_text())
    return ik_service.load_robot(path)


def run(controller, start, poses, **options):
    """Commands and speeds of every tick, [ticks, 2, coordinates]."""
    controller.reset(start)
    found = []
    for pose in poses:
        result = controller.step(pose, dt=DT, **options)
        found.append((result.joint_q[0].copy(), result.joint_qd[0].copy()))
    return np.array(found)


def towards(robot, link, start, move):
    """Poses on a line from where a link is."""
    pose = pose_of(robot, start, link)
    return [pose + np.concatenate([np.multiply(move, k / TICKS), np.zeros(4)]) for k in range(1, TICKS + 1)]


@pytest.mark.parametrize("deadline_ns", [None, 0])
def test_the_commands_are_those_of_the_cpu_and_the_same_bytes_in_every_schedule(panda, device, deadline_ns):
    """With a deadline that has passed, too: there a tick has several launches, each with settings of its own."""
    poses, limits = towards(panda, "panda_hand", START, (0.02, 0.01, -0.01)), ControlLimits(acceleration=20.0)
    expected = run(IKController(panda, ["panda_hand"], limits=limits), START, poses, deadline_ns=deadline_ns)
    found = []
    for schedule in SCHEDULES.values():
        with device.scheduled(**schedule):
            controller = IKController(panda, ["panda_hand"], limits=limits, device=GPU)
            found.append(run(controller, START, poses, deadline_ns=deadline_ns))
    assert np.abs(expected[-1, 0] - START).max() > 1e-4
    np.testing.assert_allclose(found[0], expected, atol=SAME)
    for one in found[1:]:
        assert one.tobytes() == found[0].tobytes()


@pytest.mark.evidence
@pytest.mark.usefixtures("schedule")
def test_joints_without_a_task_stay_where_reset_puts_them(gantry):
    controller = IKController(gantry, ["z_link"], device=GPU)
    for place in (0.5, -0.25):
        start = np.array([0.1, 0.2, 0.3, place])
        start = start[[["x", "y", "z", "w"].index(name) for name in gantry.coordinate_names]]
        commands = run(controller, start, towards(gantry, "z_link", start, (1e-3, 0.0, 0.0)))
        idle = gantry.coordinate_names.index("w")
        np.testing.assert_array_equal(commands[:, 0, idle], place)
        np.testing.assert_array_equal(commands[:, 1, idle], 0.0)
        assert commands[-1, 0, gantry.coordinate_names.index("x")] > 0.1


@pytest.mark.usefixtures("schedule")
def test_the_first_tick_and_those_after_it_keep_the_limit_of_speed(panda):
    controller = IKController(panda, ["panda_hand"], limits=ControlLimits(velocity=SLOW), device=GPU)
    far = [pose_of(panda, START, "panda_hand") + np.array([0.3, 0.2, 0.1, 0.0, 0.0, 0.0, 0.0])] * TICKS
    commands = run(controller, START, far)
    steps = np.diff(commands[:, 0], axis=0, prepend=START[None])
    assert np.abs(steps).max() <= SLOW * DT * (1.0 + 1e-9)
    assert np.abs(steps).max() >= 0.9 * SLOW * DT


@pytest.mark.evidence
def test_two_robots_with_clearance_keep_away_from_an_object_that_moves(device):
    robot = ik_service.load_robot("panda")
    hand = pose_of(robot, START, "panda_hand")

    def ball(distance):
        return World({"ball": Sphere(0.05, (hand[0], hand[1] + distance, hand[2]))})

    answers = {}
    for where in (CPU, GPU):
        limits = ControlLimits(clearance=0.02)
        controller = IKController(robot, ["panda_hand"], robots=2, limits=limits, world=ball(0.3), device=where)
        controller.reset(START)
        controller.set_world(ball(0.25))
        for pose in towards(robot, "panda_hand", START, (0.0, 0.05, 0.0)):
            result = controller.step(pose, dt=0.02)
        answers[where] = result.copy()
    np.testing.assert_array_equal(answers[GPU].status, answers[CPU].status)
    np.testing.assert_allclose(answers[GPU].joint_q, answers[CPU].joint_q, atol=1e-5)  # the check is in float32
    assert np.isfinite(answers[GPU].clearance).all()
    np.testing.assert_allclose(answers[GPU].clearance, answers[CPU].clearance, atol=1e-5)


def test_warming_up_and_derivatives_leave_the_robot_where_it_is(panda):
    controller = IKController(panda, ["panda_hand"], device=GPU)
    controller.reset(START)
    controller.warmup()
    pose = pose_of(panda, START, "panda_hand")
    derivatives = controller.linearise(pose, START)
    expected = IKController(panda, ["panda_hand"]).linearise(pose, START)
    np.testing.assert_allclose(derivatives.joint_q_by_start, expected.joint_q_by_start, atol=1e-5)
    np.testing.assert_allclose(controller.step(pose, dt=DT).joint_q[0], START, atol=1e-6)


@pytest.mark.evidence
@pytest.mark.usefixtures("schedule")
def test_an_objective_may_exchange_its_array_between_ticks(panda):
    poses, found = towards(panda, "panda_hand", START, (0.002, 0.001, -0.001)), {}
    for where in (CPU, GPU):
        posture = IKObjectivePosture(START, weight=0.1)
        controller = IKController(panda, ["panda_hand"], objectives=[posture], device=where)
        still = run(controller, START, poses)
        posture.set_reference(wp.array((START + 0.3)[np.newaxis].astype(np.float32), device=where))
        found[where] = run(controller, START, poses)
        assert np.abs(found[where] - still)[:, 0].max() > 1e-4
    np.testing.assert_allclose(found[GPU][:, 0], found[CPU][:, 0], atol=SAME_YIELDING)


@pytest.mark.parametrize("ticks", [1, TICKS])
def test_on_a_device_that_is_lost_a_tick_is_an_error_and_never_a_command(panda, ticks, device):
    controller = IKController(panda, ["panda_hand"], device=GPU)
    poses = towards(panda, "panda_hand", START, (0.02, 0.01, -0.01))
    run(controller, START, poses[:ticks])
    with device.lost(), pytest.raises(RuntimeError):
        controller.step(poses[0], dt=DT)


def test_a_controller_on_a_gpu_cannot_be_exported(panda):
    with pytest.raises(EngineError, match="Only controllers on a CPU"):
        IKController(panda, ["panda_hand"], device=GPU).recorded()


def run_slowly(part, count):
    """The launches of a part, with time for other threads between them."""
    for step in part._steps:
        step(count)
        time.sleep(1e-3)


@pytest.mark.evidence
def test_ticks_beside_a_solver_that_records_fail_never_and_stay_out_of_its_graphs(panda, device, monkeypatch):
    monkeypatch.setattr(recording, "USES_MIN", 0)
    monkeypatch.setattr(recording.PartLaunches, "run", run_slowly)
    problems = Reachable.draw(panda, ["panda_hand"], 2)
    poses = towards(panda, "panda_hand", START, (0.02, 0.01, -0.01))
    controller = IKController(panda, ["panda_hand"], device=GPU)
    expected = run(controller, START, poses)

    def record():
        """Nodes of a graph that is recorded anew."""
        before = device["graph_nodes"]
        solver = ik_service.IKSolver(panda, ["panda_hand"], device=GPU)
        solver.solve(problems.positions, problems.orientations_xyzw)
        return device["graph_nodes"] - before

    alone, refusals, found, over = record(), device["refusals"], [], threading.Event()

    def tick():
        while not over.is_set():
            found.append(run(controller, START, poses).tobytes())

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        nodes = [record() for _ in range(8)]
    finally:
        over.set()
        thread.join()
    assert alone > 10
    assert set(nodes) == {alone}
    assert set(found) == {expected.tobytes()}
    assert len(found) > 1
    assert device["refusals"] == refusals
