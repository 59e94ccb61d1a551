"""Other directions of a target, and clips fitted to a drawn path: pictures, words and the robot."""

import io
import re
from html import escape

import numpy as np
import pytest

from ik_service.mechanism.transforms import quaternion_rotate
from ik_service.motion.clip_result import ClipResult
from ik_service.page import words
from ik_service.page.drawn_path import RAMP_S
from ik_service.page.posed_robot import DIRECTIONS, TILT_MOST
from ik_service.page.questions import ROTATIONS
from ik_service.page.stage import FORK, pose_of
from tests.page.guests import Guest, drawn_colors

HAND = "panda_hand"
ON_TARGET_M = 1e-3  # the solver's own tolerance
FAR = np.array([0.0, 0.0, 2.0])
WIDE = np.tile([[0.05, 0.05, -0.05], [0.06, -0.08, 0.02], [-0.02, 0.1, 0.05]], (2, 1))
ROUNDING = 1e-4  # share of a limit: joints are float32


def told(guest):
    """The counts in the panel, by fate."""
    return {word: int(count) for count, word in re.findall(r">(\d+) ([^<:]+)<", guest.panel.found.content)}


def drawn(guest):
    """The number of drawn forks, by fate."""
    nodes = guest.visitor.client.scene._handle_from_node_name
    forks = {word: nodes[f"/forks/{k}"] for k, (word, _) in enumerate(words.FATES)}
    assert all((node.colors == color).all() for node, (_, color) in zip(forks.values(), words.FATES, strict=True))
    return {word: 2 * len(node.points) // len(FORK) for word, node in forks.items() if len(node.points)}


def tried(guest, criterion):
    guest.panel.criterion.value = criterion
    guest.do("try")


@pytest.mark.parametrize("criterion", ["manipulability", "limit_margin", "clearance", "nearest"])
def test_the_robot_stands_at_the_best_direction(guest, solving, criterion):
    target, joint_q = guest.posed.targets[HAND].pose, guest.posed.joint_q.copy()
    question = guest.posed.direction_question(options={}, objects={})
    turns = question.targets[0].orientations_xyzw
    assert turns[0] == pytest.approx(target[3:])
    axes = quaternion_rotate(turns, np.array([0.0, 0.0, 1.0]))
    assert np.arccos(np.clip(axes @ axes[0], -1.0, 1.0)).max() == pytest.approx(TILT_MOST, abs=0.02)
    tried(guest, criterion)
    assert "Reached" in guest.status
    moved = pose_of(guest.stage.gizmos[HAND])
    assert np.linalg.norm(guest.place(HAND) - target[:3]) < ON_TARGET_M
    assert np.abs(np.abs(turns @ moved[3:]) - 1.0).min() < 1e-6
    assert drawn(guest) == told(guest)
    assert sum(told(guest).values()) == DIRECTIONS
    assert told(guest)["chosen"] == 1
    robot = guest.posed.robot
    each = solving.solve(question)
    if criterion == "manipulability":
        best = robot.manipulability(each.joint_q[each.success], HAND).max()
        assert robot.manipulability(guest.posed.joint_q, HAND)[0] > 0.99 * best
    if criterion == "clearance":
        assert robot.collision(guest.posed.joint_q).clearance[0] > 0.99 * each.clearance[each.success].max()
    if criterion == "nearest":
        np.testing.assert_allclose(guest.posed.joint_q, joint_q, atol=1e-3)


def test_directions_that_are_not_needed_are_told(guest):
    tried(guest, "first")
    assert drawn(guest) == told(guest) == {"chosen": 1, "reachable": 15, "not needed": DIRECTIONS - 16}


def test_forks_point_at_the_target_and_go_with_the_next_solve(guest):
    target = guest.posed.targets[HAND].pose[:3]
    tried(guest, "nearest")
    nodes = guest.visitor.client.scene._handle_from_node_name
    ends = np.concatenate([nodes[f"/forks/{k}"].points for k in range(len(words.FATES))]).reshape(-1, len(FORK), 3)
    away = np.linalg.norm(ends - target, axis=2)
    assert away == pytest.approx(
        np.tile(guest.stage.gizmo_size * np.linalg.norm(FORK, axis=1), (DIRECTIONS, 1)), rel=1e-5
    )
    assert (away[:, 0] > away[:, 5]).all()
    guest.drag(HAND, [0.0, 0.01, 0.0])
    assert "forks" not in guest.stage.shown
    assert guest.panel.found.content == ""


def test_without_a_direction_in_reach_the_robot_stays(guest):
    guest.drag(HAND, FAR)
    joint_q, pose = guest.posed.joint_q.copy(), pose_of(guest.stage.gizmos[HAND])
    tried(guest, "manipulability")
    assert drawn(guest) == told(guest) == {"proven out of reach": DIRECTIONS}
    assert "Proven: out of reach" in guest.status
    assert np.array_equal(guest.posed.joint_q, joint_q)
    assert np.array_equal(pose_of(guest.stage.gizmos[HAND]), pose)


def test_directions_that_an_obstacle_blocks_are_told(guest):
    guest.do("box")
    guest.stage.obstacles[0].gizmo.position = guest.posed.targets[HAND].pose[:3]
    guest.visitor.dragged()
    guest.work()
    tried(guest, "first")
    assert drawn(guest) == told(guest) == {"proven to be blocked": DIRECTIONS}
    assert "Reached" not in guest.status


def test_a_direction_is_undone(guest):
    joint_q, pose = guest.posed.joint_q.copy(), pose_of(guest.stage.gizmos[HAND])
    tried(guest, "manipulability")
    assert np.abs(guest.posed.joint_q - joint_q).max() > 0.1
    guest.do("undo")
    np.testing.assert_allclose(pose_of(guest.stage.gizmos[HAND]), pose, atol=1e-12)
    np.testing.assert_allclose(guest.posed.joint_q, joint_q, atol=1e-3)
    assert "forks" not in guest.stage.shown


def test_a_target_without_a_direction_is_refused(guest):
    guest.do(f"target {HAND}", {"free": ROTATIONS})
    guest.do("try")
    assert "no directions to try" in guest.status
    assert "forks" not in guest.stage.shown


def test_the_other_arm_stays_while_directions_are_tried(server, solving):
    guest = Guest(server, solving, "dual_panda")
    before = guest.posed.joint_q.copy()
    tried(guest, "manipulability")
    assert np.abs(guest.posed.joint_q - before)[:7].max() > 0.1
    np.testing.assert_allclose(guest.posed.joint_q[7:], before[7:], atol=1e-3)


def recorded(guest, link, ways):
    guest.click(guest.panel.record, True)
    for way in ways:
        guest.drag(link, way)
    guest.click(guest.panel.record, False)


def fitted(guest):
    guest.visitor.enqueue("fit")
    guest.until(lambda: guest.visitor._path.followed is not None)
    path = guest.visitor._path
    guest.until(lambda: path.at is None)
    guest.work()
    return path


def test_a_clip_keeps_speeds_and_accelerations_and_tells_its_errors(guest):
    recorded(guest, HAND, WIDE)
    path, robot, panel = fitted(guest), guest.posed.robot, guest.panel
    clip = path.followed
    assert isinstance(clip, ClipResult)
    assert (np.abs(clip.joint_qd[1:]) <= robot.joint_velocity_limit * (1.0 + ROUNDING)).all()
    change = np.abs(np.diff(clip.joint_qd[1:], axis=0)) / clip.dt
    assert (change <= robot.joint_velocity_limit / RAMP_S * (1.0 + ROUNDING)).all()
    met = int(path.met.sum())
    assert 0 < met < len(path) == len(clip)
    assert f"{met} of {len(path)} waypoints met" in panel.path.content
    assert f"largest {1e3 * clip.position_error.max():.3g} mm." in panel.path.content
    assert "Held back by limits of acceleration: " + escape("'panda_joint") in panel.path.content
    assert "cost" not in panel.path.content
    assert "On the path" in guest.status
    assert (words.GOOD in drawn_colors(guest.stage.drawing)) == path.met[-1]
    assert [len(column) for column in panel._plot.data] == [len(path)] * 8
    end = panel.time.value
    guest.click(panel.plotted, "speeds")
    assert panel.time.value == end == pytest.approx(clip.dt * (len(path) - 1))  # where the robot stands
    worst = int(clip.position_error.max(axis=1).argmax())
    guest.click(panel.time, clip.dt * worst)
    assert f"{1e3 * guest.posed.error[HAND][0]:.3f} mm" in guest.status
    assert guest.posed.error[HAND][0] == pytest.approx(clip.position_error[worst, 0], rel=1e-3)
    assert words.GOOD not in drawn_colors(guest.stage.drawing)
    table = np.genfromtxt(io.BytesIO(path.csv), delimiter=",", names=True)
    assert np.allclose(table["panda_joint2"], clip.joint_q[:, 1])


def test_a_clip_in_contact_is_not_met(guest):
    guest.do("box")
    recorded(guest, HAND, [[0.0, 0.0, -0.02], [0.0, 0.0, -0.02]])
    guest.stage.obstacles[0].gizmo.position = guest.posed.targets[HAND].pose[:3]
    path = fitted(guest)
    assert not path.met.any()
    assert "In contact with itself in" in guest.panel.path.content


def test_a_clip_of_a_robot_that_closes_loops_is_refused_in_words(server, solving):
    guest = Guest(server, solving, "four_bar")
    link = next(iter(guest.posed.targets))
    recorded(guest, link, [[0.0, 0.01, 0.0], [0.01, 0.0, 0.0]])
    guest.do("fit")
    assert "of robots without constraints" in guest.status
    assert guest.visitor._path.followed is None
