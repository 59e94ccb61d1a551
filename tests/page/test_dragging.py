"""What a visitor sees who drags and poses by hand, without a browser."""

import contextlib
import io
import queue
import time

import numpy as np
import pytest

from ik_service.page import view, words
from ik_service.page.panel import NO_SLICE
from ik_service.page.stage import pose_of
from tests.page.guests import Guest, drawn_colors, drawn_position


def test_the_robot_moves_on_the_way_to_where_a_gizmo_is_dragged(guest, monkeypatch):
    monkeypatch.setattr(view, "BETWEEN_S", 1.0)  # so that a busy machine does some steps, too
    visitor, seen = guest.visitor, []
    gizmo = guest.stage.gizmos["panda_hand"]
    start, turn = np.array(gizmo.position), np.array(gizmo.wxyz)
    gizmo.position, gizmo.wxyz = start + np.array([0.0, 0.0, -0.09]), -turn  # the same orientation
    visitor.dragged()
    while not seen or (seen[-1] != pose_of(gizmo)).any():
        guest.waiting.get(timeout=10.0).work()
        seen.append(guest.posed.targets["panda_hand"].pose)
    ways = np.unique(start[2] - np.array(seen)[:, 2])
    assert len(ways) >= 4
    assert ways[0] > 0.0
    assert ways[-1] == pytest.approx(0.09)
    assert np.abs(np.array(seen)[:-1, 3:] - turn[[1, 2, 3, 0]]).max() < 1e-6


def test_a_browser_that_draws_slowly_gets_more_steps(guest):
    visitor = guest.visitor
    for apart, steps in ((0.05, 2), (0.1, 5), (10.0, 5)):  # a browser says where a gizmo is every 50 ms at most
        visitor._heard_at = time.perf_counter() - apart
        visitor.dragged()
        assert round((visitor._arrives_at - visitor._heard_at) / view.DRAG_STEP_S) >= steps
        assert visitor._arrives_at - visitor._heard_at <= view.BETWEEN_S + 1e-9
    guest.work()


def test_targets_that_come_quickly_are_solved_for_at_once(guest, monkeypatch):
    monkeypatch.setattr(view, "BETWEEN_S", 100.0)  # a step on the way would leave the robot far behind
    visitor, gizmo = guest.visitor, guest.stage.gizmos["panda_hand"]
    visitor._heard_at = time.perf_counter()
    for _ in range(20):
        gizmo.position = gizmo.position + np.array([0.0, 0.0, -0.001])
        visitor.dragged()
        visitor.work()
    assert guest.posed.targets["panda_hand"].pose[2] - gizmo.position[2] < 0.01


def test_links_that_touch_by_hand_are_named(guest):
    for (slider, _, _), value in zip(guest.panel.sliders, (87.8, 77, -74.1, -172.7, -47.1, 3.1, 26.3), strict=True):
        guest.click(slider, value)
    assert "Posed by hand, in contact" in guest.status
    told = guest.status.replace("panda_link1 and panda_hand", "panda_hand and panda_link1")
    assert "panda_hand and panda_link1 overlap by 5" in told
    assert words.HIT in drawn_colors(guest.stage.drawing)
    guest.click(guest.panel.collision, False)
    guest.click(guest.panel.sliders[0][0], 80.0)
    assert "Posed by hand" in guest.status


def test_a_path_that_is_dragged_is_followed_plotted_and_saved(guest):
    visitor, panel = guest.visitor, guest.panel
    guest.click(panel.record, True)
    for way in np.tile([[0.0, 0.0, -0.02], [0.0, 0.02, 0.0]], (6, 1)):
        guest.drag("panda_hand", way)
    count = len(visitor._path)
    assert f"{count} of at most 1000 waypoints recorded" in panel.path.content
    assert 12 <= count <= 40
    assert guest.stage.shown.get("path").points.shape == (count - 1, 2, 3)
    visitor.enqueue("follow")
    guest.until(lambda: visitor._path.followed is not None)
    visitor.enqueue("follow")  # again, on the way
    visitor.enqueue("picks", True)  # which does not end it
    guest.until(lambda: np.array_equal(guest.posed.joint_q, visitor._path.followed.joint_q[-1]))
    guest.work()
    assert "On the path" in guest.status
    followed = visitor._path.followed
    assert f"{count} of {count} waypoints met" in panel.path.content
    assert followed.joint_change[1:].max() < 0.2
    hands = guest.posed.robot.forward_kinematics(followed.joint_q, ["panda_hand"]).positions[:, 0]
    assert np.abs(hands[1:] - visitor._path.lines[:, 1]).max() < 1e-4
    assert [len(column) for column in panel._plot.data] == [count] * 8
    guest.click(panel.plotted, "speeds")
    assert np.allclose(panel._plot.data[1], np.degrees(followed.joint_qd[:, 0]))
    assert panel.time.max == pytest.approx(followed.dt * (count - 1))
    guest.click(panel.time, panel.time.max / 2)
    at = round(panel.time.max / 2 / followed.dt)
    assert np.array_equal(guest.posed.joint_q, followed.joint_q[at])
    assert "On the path" in guest.status
    sent = []
    visitor.client.send_file_download = lambda *file: sent.append(file)
    guest.do("save")
    [(name, content)] = sent
    table = np.genfromtxt(io.BytesIO(content), delimiter=",", names=True)
    assert name == "path.csv"
    assert np.allclose(table["time_s"], followed.dt * np.arange(count))
    assert np.allclose(table["panda_joint2"], followed.joint_q[:, 1])
    assert np.allclose(table["panda_joint2_speed"], followed.joint_qd[:, 1])
    guest.do("clear")
    guest.click(panel.time, 0.1)  # of no path
    assert panel.time.disabled
    assert (len(visitor._path), panel.path.content, panel._plot, guest.stage.shown.get("path")) == (0, "", None, None)


def test_a_drag_ends_the_way_along_a_path(guest):
    visitor = guest.visitor
    guest.click(guest.panel.record, True)
    for _ in range(4):
        guest.drag("panda_hand", [0.0, 0.0, -0.05])
    guest.click(guest.panel.record, False)
    visitor.enqueue("follow")
    guest.waiting.get(timeout=10.0).work()
    guest.waiting.get(timeout=10.0).work()  # at the first waypoint
    place = np.array(guest.drag("panda_hand", [0.0, 0.1, 0.0]).position)
    with contextlib.suppress(queue.Empty):
        while True:
            guest.waiting.get(timeout=0.3).work()
    assert np.linalg.norm(drawn_position(guest.stage.drawing, "panda_hand") - place) < 1e-3


def test_a_slice_shows_what_is_within_reach_and_goes_with_the_target(guest):
    guest.click(guest.panel.plane, "upright, along x")
    cloud = guest.stage.shown.get("slice")
    places, colors = np.array(cloud.points, np.float64), np.array(cloud.colors)
    good = (colors == words.GOOD).all(axis=1)
    assert 200 < good.sum() < len(good) < 41 * 41
    assert (colors[~good] == words.HIT).all()
    assert np.linalg.norm(places[good] - [0.0, 0.0, 0.333], axis=1).max() < 1.1  # the arm's reach from its shoulder
    assert np.abs(places[:, 1] - guest.posed.targets["panda_hand"].pose[1]).max() < 1e-3
    for _ in range(2):
        cloud = guest.stage.shown.get("slice")
        guest.drag("panda_hand", [0.0, 0.1, 0.0])
        guest.until(lambda before=cloud: guest.stage.shown.get("slice") is not before)
    assert np.abs(np.array(guest.stage.shown.get("slice").points)[:, 1] - places[0, 1] - 0.2).max() < 2e-3
    cloud = guest.stage.shown.get("slice")
    guest.click(guest.panel.sliders[0][0], -60.0)
    guest.until(lambda: guest.stage.shown.get("slice") is not cloud)
    moved = guest.posed.targets["panda_hand"].pose[1]
    assert np.abs(np.array(guest.stage.shown.get("slice").points)[:, 1] - moved).max() < 2e-3
    guest.click(guest.panel.plane, NO_SLICE)
    assert guest.stage.shown.get("slice") is None


def test_an_arm_without_a_target_stays_beside_a_path_and_a_slice(server, solving):
    guest = Guest(server, solving, "dual_panda")
    visitor = guest.visitor
    guest.click(guest.panel.sliders[7][0], 40.0)  # the right arm's first joint
    visitor.enqueue("target right_panda_hand", {"is_on": False})
    guest.click(guest.panel.record, True)
    for _ in range(3):
        guest.drag("left_panda_hand", [0.0, 0.0, -0.02])
    right = guest.posed.joint_q[7:].copy()
    visitor.enqueue("follow")
    guest.until(lambda: visitor._path.followed is not None)
    np.testing.assert_allclose(visitor._path.followed.joint_q[:, 7:] - right, 0.0, atol=1e-6)
    question = guest.posed.slice_question("level", options={}, objects={})[0]
    np.testing.assert_allclose(solving.solve(question).joint_q[:, 7:] - right, 0.0, atol=1e-6)


def test_a_slice_counts_what_is_around_the_robot(guest):
    guest.click(guest.panel.plane, "level")
    shown = guest.stage.shown["slice"]
    free = len(shown.points), int((shown.colors == words.HIT).all(axis=1).sum())
    guest.do("box")
    guest.click(guest.panel.size, 600.0)
    guest.until(lambda: int((guest.stage.shown.get("slice").colors == words.HIT).all(axis=1).sum()) > free[1] + 10)


def test_a_link_that_is_clicked_is_dragged_beside_the_hand(guest):
    visitor, panel = guest.visitor, guest.panel
    guest.drag("panda_hand", [0.1, 0.0, -0.1])  # at first the elbow is above the shoulder, and no joint moves it aside
    robot, hand = guest.posed.robot, guest.posed.targets["panda_hand"].pose
    assert not guest.click_link("panda_link4")
    guest.click(panel.picks, True)
    elbow = guest.place("panda_link4")
    guest.click_link("panda_link4")
    assert [target.link for target in visitor.question.targets] == ["panda_hand", "panda_link4"]
    np.testing.assert_allclose(guest.stage.gizmos["panda_link4"].position, elbow, atol=1e-6)
    assert panel.numbers["panda_link4"][0].value == pytest.approx(elbow.tolist(), abs=1e-4)
    guest.drag("panda_link4", [0.0, 0.02, 0.0])
    moved = robot.forward_kinematics(guest.posed.joint_q, ["panda_hand", "panda_link4"]).positions[0]
    assert moved[1, 1] - elbow[1] > 0.01
    assert np.linalg.norm(moved[0] - hand[:3]) < 0.02
    guest.click_link("panda_link4")
    assert [target.link for target in visitor.question.targets] == ["panda_hand"]
    assert not guest.stage.gizmos["panda_link4"].visible
    assert not panel.numbers["panda_link4"][2].value
    now = guest.place("panda_link4")
    guest.click_link("panda_link4")
    np.testing.assert_allclose(guest.stage.gizmos["panda_link4"].position, now, atol=1e-6)
    guest.click(panel.picks, False)
    assert not guest.click_link("panda_link4")


def test_a_link_that_no_joint_moves_is_refused(guest):
    guest.click(guest.panel.picks, True)
    guest.click_link("panda_link0")
    assert "No joint moves &#x27;panda_link0&#x27;" in guest.status
    assert list(guest.posed.targets) == ["panda_hand"]
    assert drawn_colors(guest.stage.drawing) == {words.BY_HAND}


def test_a_link_of_a_robot_that_closes_loops_is_dragged(server, solving):
    guest = Guest(server, solving, "delta")
    assert guest.panel.others.disabled  # no other solutions are sought
    visitor, robot = guest.visitor, guest.posed.robot
    link = robot.link_names[int(np.flatnonzero(robot.link_body == 0)[0])]
    guest.click(guest.panel.picks, True)
    guest.click_link(link)
    assert [target.link for target in visitor.question.targets] == ["platform", link]
    guest.drag("platform", [0.0, 0.0, -0.01])
    visitor.enqueue("target platform", {"is_on": False})
    guest.drag(link, [0.0, 0.0, 0.002])
    assert [target.link for target in visitor.question.targets] == [link]
    assert np.abs(robot.constraints.error(guest.posed.joint_q)).max() < 1e-6


def test_drags_are_undone_one_after_another(guest):
    stages, gizmo = [], guest.stage.gizmos["panda_hand"]
    for way in ([0.0, 0.05, 0.0], [0.0, 0.0, -0.1]):
        stages.append((guest.posed.joint_q.copy(), pose_of(gizmo)))
        guest.send(gizmo, "start")
        for _ in range(3):
            guest.drag("panda_hand", way)
        guest.send(gizmo, "end")
    for joint_q, pose in reversed(stages):
        assert np.abs(guest.posed.joint_q - joint_q).max() > 0.01
        guest.do("undo")
        np.testing.assert_allclose(pose_of(gizmo), pose, atol=1e-12)
        np.testing.assert_allclose(guest.posed.joint_q, joint_q, atol=1e-4)
        assert "Reached" in guest.status
    guest.do("undo")  # nothing is left
    np.testing.assert_allclose(guest.posed.joint_q, stages[0][0], atol=1e-4)


def test_targets_that_are_typed_or_taken_away_are_undone(guest):
    before = guest.posed.targets["panda_hand"].pose
    guest.click(guest.panel.numbers["panda_hand"][0], (0.4, 0.1, 0.5))
    guest.do("target panda_hand", {"is_on": False})
    assert "nothing to solve for" in guest.status
    guest.do("undo")
    assert guest.stage.gizmos["panda_hand"].visible
    assert "Reached" in guest.status
    guest.do("undo")
    np.testing.assert_allclose(guest.posed.targets["panda_hand"].pose, before, atol=1e-12)


def test_fingers_are_opened_beside_the_one_target_of_a_gripper(server, solving):
    guest = Guest(server, solving, "panda_gripper")
    assert list(guest.posed.targets) == list(guest.stage.gizmos) == ["panda_hand_tcp"]
    idle = {guest.posed.robot.dof_names[dof] for dof in guest.posed.idle_dofs()}
    assert idle == {"panda_finger_joint1", "panda_finger_joint2"}  # the second follows the first
    slider, coordinate, scale = guest.panel.sliders[0]
    guest.click(slider, 10.0)
    assert scale * guest.posed.joint_q[coordinate] == pytest.approx(10.0)
    guest.drag("panda_hand_tcp", [0.0, 0.05, 0.0])
    assert "Reached" in guest.status
    assert scale * guest.posed.joint_q[coordinate] == pytest.approx(10.0, abs=1e-3)
