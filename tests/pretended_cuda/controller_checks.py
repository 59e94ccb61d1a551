"""Ticks on the pretended device: the commands of the CPU, whatever the schedule.

Ticks are in float64 on both, so commands agree to `SAME`; between schedules all bytes are equal.
"""

import numpy as np
import pytest
import warp as wp

import ik_service
from ik_service.collision.shapes import Sphere
from ik_service.collision.world import World
from ik_service.control import ControlLimits, IKController
from ik_service.errors import EngineError
from objectives import IKObjectivePosture
from tests.control.conftest import pose_of
from tests.pretended_cuda.conftest import CPU, GPU
from tests.pretended_cuda.device import SCHEDULES

SAME = 1e-8  # [m, rad, m/s or rad/s]: two compilers fuse float64 in other places, and speeds are steps over a 1 ms tick
DT = 1e-3
TICKS = 6
START = np.array([0.1, 0.2, -0.1, -1.6, 0.1, 1.9, 0.6])


@pytest.fixture
def poses(panda):
    return towards(panda.robot, (0.02, 0.01, -0.01))


def towards(robot, move):
    pose = pose_of(robot, START, "panda_hand")
    return [pose + np.concatenate([np.multiply(move, k / TICKS), np.zeros(4)]) for k in range(1, TICKS + 1)]


def controller_of(robot, device=GPU, **given):
    return IKController(robot, ["panda_hand"], device=device, **given)


def run(controller, poses, **options):
    """Commands and speeds of every tick, [ticks, 2, coordinates]."""
    controller.reset(START)
    results = (controller.step(pose, dt=DT, **options) for pose in poses)
    return np.array([(result.joint_q[0].copy(), result.joint_qd[0].copy()) for result in results])


@pytest.mark.parametrize("deadline_ns", [None, 0])
def test_the_commands_are_those_of_the_cpu_and_the_same_bytes_in_every_schedule(panda, poses, device, deadline_ns):
    """With a deadline that has passed, too: there a tick has several launches, each with settings of its own."""

    def commands(where):
        controller = controller_of(panda.robot, where, limits=ControlLimits(acceleration=20.0))
        return run(controller, poses, deadline_ns=deadline_ns)

    expected, found = commands(CPU), []
    for schedule in SCHEDULES.values():
        with device.scheduled(**schedule):
            found.append(commands(GPU))
    assert np.abs(expected[-1, 0] - START).max() > 1e-4
    np.testing.assert_allclose(found[0], expected, atol=SAME)
    assert {one.tobytes() for one in found} == {found[0].tobytes()}


@pytest.mark.evidence
def test_an_array_that_replaces_data_of_an_objective_is_read_from_then_on(panda, poses):
    moved, exchanged, found = START + 0.1, IKObjectivePosture(START), []
    for posture in (IKObjectivePosture(moved), exchanged):
        controller = controller_of(panda.robot, objectives=[posture])
        if posture is exchanged:
            posture.set_reference(wp.array([moved], dtype=wp.float32, device=GPU))
        found.append(run(controller, poses))
    assert np.abs(found[0][-1, 0] - START).max() > 1e-4
    assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.evidence
def test_two_robots_with_clearance_keep_away_from_an_object_that_moves():
    robot = ik_service.load_robot("panda")
    hand = pose_of(robot, START, "panda_hand")

    def ball(distance):
        return World({"ball": Sphere(0.05, (hand[0], hand[1] + distance, hand[2]))})

    answers = {}
    for where in (CPU, GPU):
        limits = ControlLimits(clearance=0.02)
        controller = controller_of(robot, where, robots=2, limits=limits, world=ball(0.3))
        controller.reset(START)
        controller.set_world(ball(0.25))
        for pose in towards(robot, (0.0, 0.05, 0.0)):
            result = controller.step(pose, dt=0.02)
        answers[where] = result.copy()
    np.testing.assert_array_equal(answers[GPU].status, answers[CPU].status)
    assert np.isfinite(answers[GPU].clearance).all()
    for name in ("joint_q", "clearance"):  # the check is in float32
        np.testing.assert_allclose(getattr(answers[GPU], name), getattr(answers[CPU], name), atol=1e-5)


def test_warming_up_and_derivatives_leave_the_robot_where_it_is(panda):
    controller = controller_of(panda.robot)
    controller.reset(START)
    controller.warmup()
    pose = pose_of(panda.robot, START, "panda_hand")
    found, expected = (one.linearise(pose, START) for one in (controller, controller_of(panda.robot, CPU)))
    np.testing.assert_allclose(found.joint_q_by_start, expected.joint_q_by_start, atol=1e-5)
    np.testing.assert_allclose(controller.step(pose, dt=DT).joint_q[0], START, atol=1e-6)


@pytest.mark.parametrize("ticks", [1, TICKS])
def test_on_a_device_that_is_lost_a_tick_is_an_error_and_never_a_command(panda, poses, ticks, device):
    controller = controller_of(panda.robot)
    run(controller, poses[:ticks])
    with device.lost(), pytest.raises(RuntimeError):
        controller.step(poses[0], dt=DT)


def test_a_controller_on_a_gpu_cannot_be_exported(panda):
    with pytest.raises(EngineError, match="Only controllers on a CPU"):
        controller_of(panda.robot).recorded()
