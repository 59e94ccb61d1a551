"""What a visitor's clicks do to the scene and the panel, without a browser: the server's own scene stands for it."""

from html import escape
from types import SimpleNamespace

import numpy as np
import pytest

from ik_service.mechanism.transforms import quaternion_from_rpy
from ik_service.page import LocalSolving, Page, PageError, words
from ik_service.page.drawing import LIMIT_COLOR
from ik_service.page.geometry import JOINT_MATERIAL, RESULT
from ik_service.page.panel import HERE
from ik_service.page.questions import ROTATIONS
from ik_service.page.stage import BESIDE, OBSTACLES_MOST, pose_of
from ik_service.page.visitor import Visitor
from ik_service.robots import builtin_robot_names
from tests.page.guests import Guest, drawn_colors, drawn_position

DRAWN_M = 1e-6  # positions are sent as float32


def test_the_drawn_hand_follows_its_target(guest):
    for way in ([0.02, 0.0, -0.03], [0.0, 0.05, 0.0]):
        gizmo = guest.drag("panda_hand", way)
        drawn = drawn_position(guest.stage.drawing, "panda_hand")
        assert np.linalg.norm(drawn - gizmo.position) < 1e-3
    visitor = guest.visitor
    hand = guest.place("panda_hand")
    assert np.abs(drawn - hand).max() < DRAWN_M
    assert "Reached" in guest.status
    assert not guest.stage.miss.visible
    assert 3 <= visitor.solves <= 13  # up to six on the way to each place


def test_a_target_out_of_reach_is_said_and_drawn(guest):
    guest.drag("panda_hand", [2.0, 0.0, 0.0])
    assert escape(guest.posed.answer.advice) in guest.status
    assert "Proven: out of reach" in guest.status
    assert escape(words.PROOFS[1]) in guest.status
    assert words.ELSEWHERE.split(":")[0] not in guest.status
    assert guest.stage.miss.visible
    assert np.abs(guest.stage.miss.points[0, 1] - guest.stage.gizmos["panda_hand"].position).max() < DRAWN_M


def test_a_miss_without_a_proof_is_said(guest):
    guest.do("target panda_hand", {"free": ROTATIONS[:1]})  # no proof covers a single free one
    guest.drag("panda_hand", [2.0, 0.0, 0.0])
    for is_free, said in ((False, words.ELSEWHERE.split(":")[0]), (True, words.UNPROVEN)):
        guest.click(guest.panel.any_branch, is_free)
        assert guest.posed.answer.proof[0] == 0
        assert "Proven" not in guest.status
        assert said in guest.status


def test_scene_nodes_stay_while_dragging(guest):
    nodes = dict(guest.visitor.client.scene._handle_from_node_name)
    for _ in range(5):
        guest.drag("panda_hand", [0.01, 0.0, 0.0])
    assert nodes == guest.visitor.client.scene._handle_from_node_name
    assert len(nodes) > 8


def test_sliders_move_the_robot_and_its_target(guest):
    slider = guest.panel.sliders[0][0]
    guest.click(slider, 30.0)
    assert guest.posed.joint_q[0] == pytest.approx(np.radians(30.0))
    hand = guest.place("panda_hand")
    assert np.abs(guest.stage.gizmos["panda_hand"].position - hand).max() < DRAWN_M
    assert "Posed by hand" in guest.status
    guest.drag("panda_hand", [0.0, 0.0, -0.02])
    assert slider.value == pytest.approx(np.degrees(guest.posed.joint_q[0]), abs=0.01)


def test_free_axes_change_what_is_asked(guest):
    guest.do("target panda_hand", {"free": ("rz",)})
    assert guest.posed.targets["panda_hand"].free == ("rz",)
    assert '"free": ["rz"]' in guest.panel.request.content.replace("&quot;", '"')
    guest.do("target panda_hand", {"free": ROTATIONS})
    assert "free</td>" in guest.status


def test_numbers_put_a_target(guest):
    position, rotation, _ = guest.panel.numbers["panda_hand"]
    guest.click(position, (0.4, 0.1, 0.5))
    drawn = drawn_position(guest.stage.drawing, "panda_hand")
    assert np.linalg.norm(drawn - [0.4, 0.1, 0.5]) < 1e-3
    guest.click(rotation, (170.0, 5.0, -20.0))
    posed = guest.posed
    hand = posed.robot.forward_kinematics(posed.joint_q, ["panda_hand"])
    asked = quaternion_from_rpy(*np.radians([170.0, 5.0, -20.0]))
    assert abs(hand.orientations_xyzw[0, 0] @ asked) > np.cos(0.5e-2)  # within the solver's tolerance of 0.01 rad
    assert np.linalg.norm(hand.positions[0, 0] - [0.4, 0.1, 0.5]) < 1e-3
    assert rotation.value == pytest.approx((170.0, 5.0, -20.0), abs=0.01)


def test_other_solutions_are_ghosts_to_be_taken(guest):
    visitor = guest.visitor
    guest.do("solutions")
    count = len(visitor.others)
    assert count >= 2
    assert guest.stage.shown.get("ghosts") is not None
    assert len(guest.panel.solution.options) == count + 1
    assert "Perhaps there are more" in guest.panel.found.content
    taken, target = visitor.others[1].copy(), pose_of(guest.stage.gizmos["panda_hand"])
    guest.click(guest.panel.solution, "ghost 2")
    assert np.abs(guest.posed.joint_q - taken).max() < 1e-3
    assert np.abs(pose_of(guest.stage.gizmos["panda_hand"])[:3] - target[:3]).max() < 1e-3
    assert guest.stage.shown.get("ghosts") is None
    assert guest.panel.solution.disabled
    guest.do("solutions")
    assert len(visitor.others) >= 2
    guest.drag("panda_hand", [0.0, 0.01, 0.0])  # they were of another target
    assert len(visitor.others) == 0
    assert guest.stage.shown.get("ghosts") is None


def test_all_branches_of_an_arm_are_named(server, solving):
    guest = Guest(server, solving, "ur5e")
    nodes = set(guest.visitor.client.scene._handle_from_node_name)
    guest.do("solutions")
    _, *names = guest.panel.solution.options
    branches = {words.branch_name(branch) for branch in range(8)}
    assert "These are all other solutions" in guest.panel.found.content
    assert len({name.partition(": ")[2] for name in names} & branches) == len(names) == 7
    assert words.branch_name(4 + 1) == "shoulder B, elbow A, wrist B"
    numbers = [node for node in guest.visitor.client.scene._handle_from_node_name if "label" in node]
    assert len({*numbers} - nodes) == len(names)
    taken = guest.visitor.others[2]
    guest.click(guest.panel.solution, names[2])
    assert "Reached" in guest.status  # solved again from there
    assert np.abs(guest.posed.joint_q - taken).max() < 1e-3
    assert set(guest.visitor.client.scene._handle_from_node_name) == nodes


def test_spheres_and_an_obstacle(guest):
    visitor = guest.visitor
    guest.click(guest.panel.spheres, True)
    spheres = guest.stage.shown["spheres"]
    joint_q, of_body = guest.posed.joint_q, guest.posed.robot.body_spheres
    marked = (spheres._drawn[0][1].batched_colors == LIMIT_COLOR).all(axis=1)
    closest = guest.posed.robot.collision(joint_q).closest_pairs[0]
    assert marked.sum() == sum(len(of_body.radii[of_body.of_link(of_body.links.index(link))]) for link in closest)
    assert 0 < marked.sum() < len(marked)
    hand = guest.stage.gizmos["panda_hand"].position
    for kind in ("box", "ball"):
        guest.do(kind)
        (obstacle,) = guest.stage.obstacles
        for way, is_hit in ((0.0, True), (0.4, False)):
            obstacle.gizmo.position = hand + np.array([0.0, way, 0.0])
            visitor.dragged()
            guest.work()
            assert (words.BLOCKED in guest.status) == is_hit
            assert (escape(words.PROOFS[words.BY_CONTACT]) in guest.status) == is_hit
            assert (words.GOOD in drawn_colors(guest.stage.drawing)) == guest.posed.answer.success[0] == (not is_hit)
            assert (obstacle.name in guest.posed.answer.closest) >= is_hit
        nodes, drawn = visitor.client.scene._handle_from_node_name, obstacle.gizmo.name
        assert drawn in nodes
        guest.do("remove")
        assert guest.stage.objects() == guest.visitor.question.objects == {}
        assert drawn not in nodes


def test_collision_can_be_left_out(guest):
    guest.click(guest.panel.collision, False)
    assert guest.posed.answer.closest is None
    assert "collision" in guest.panel.request.content
    guest.do("box")
    assert (guest.visitor.trouble, guest.visitor.question.objects) == ("", {})
    guest.click(guest.panel.collision, True)
    assert guest.visitor.question.objects.keys() == {"box_1"}


def test_another_robot_is_shown_from_the_beginning(guest):
    before = guest.stage.gizmos["panda_hand"].name  # of which a browser keeps the pose
    guest.do("robot", "ur5e")
    assert list(guest.stage.gizmos) == ["tool0"]
    assert guest.stage.gizmos["tool0"].name != before
    assert guest.posed.answer.success[0]
    first = guest.posed.joint_q.copy()
    guest.drag("tool0", [0.05, 0.0, -0.05])
    guest.do("box")
    assert guest.stage.objects()
    guest.do("restart")
    assert guest.posed.answer.success[0]
    assert np.abs(guest.posed.joint_q - first).max() < 1e-4
    assert guest.stage.objects() == {}


def test_an_arm_that_is_where_it_should_be_keeps_its_colour(server, solving):
    guest = Guest(server, solving, "dual_panda")
    guest.drag("left_panda_hand", [3.0, 0.0, 0.0])
    posed = guest.posed
    assert not posed.answer.success[0]
    right = np.array([name.startswith("right") for name in posed.robot.dof_names])
    np.testing.assert_array_equal(posed.met_dofs(), right)
    is_held = posed.held_dofs()
    for side, color in ((right, words.GOOD), (~right, words.heading(posed)[1])):
        assert drawn_colors(guest.stage.drawing, np.flatnonzero(side & ~is_held)) == {color}
    assert escape(words.PROOFS[1]) in guest.status


def test_joints_that_a_hand_puts_at_a_limit_are_told(guest):
    posed = guest.posed
    joint_q = posed.joint_q.copy()
    joint_q[3] = posed.robot.joint_limit_upper[3]
    posed.stand(joint_q)
    assert np.flatnonzero(posed.held_dofs()).tolist() == [3]


def test_no_other_solution_is_said(guest):
    for is_complete, said in ((False, "No other was found; perhaps"), (True, "There is no other solution")):
        guest.panel.show_solutions([], is_complete=is_complete)
        assert guest.panel.solution.disabled
        assert said in guest.panel.found.content
    guest.panel.show_solutions([])
    assert (guest.panel.solution.value, guest.panel.found.content) == (HERE, "")


def test_a_fault_of_ours_is_told_and_logged(guest, monkeypatch, caplog):
    monkeypatch.setattr(guest.visitor._solving, "solve", lambda _: 1 / 0)
    assert words.GOOD in drawn_colors(guest.stage.drawing)
    guest.drag("panda_hand", [0.0, 0.0, -0.02])
    assert "Something went wrong here: division by zero" in guest.status
    assert words.GOOD not in drawn_colors(guest.stage.drawing)
    assert "division by zero" in caplog.text


def test_who_leaves_during_a_solve_gets_no_answer(guest, solving, monkeypatch):
    visitor = guest.visitor

    def solve(question):
        visitor.leave()
        return solving.solve(question)

    monkeypatch.setattr(visitor, "_solving", SimpleNamespace(solve=solve, compiling=""))
    visitor.panel.status.content, visitor._refreshed_at = "as it was", 0.0
    guest.do("branch")
    assert visitor.is_gone
    assert guest.status == "as it was"
    solves = visitor.solves
    visitor.dragged()
    guest.work()
    assert visitor.solves == solves


def test_a_page_without_its_robot_or_port_is_refused():
    with pytest.raises(PageError, match="no robot 'nobody'"):
        Page(LocalSolving("cpu"), "nobody")
    with Page(LocalSolving("cpu")) as page, pytest.raises(PageError, match="--port"):
        Page(LocalSolving("cpu"), port=int(page.url.rpartition(":")[2]))


# ---------------------------------------------------------------------- obstacles, bodies, dark or light
def test_obstacles_are_added_dragged_sized_and_removed(guest):
    stage, panel = guest.stage, guest.panel
    guest.do("box")
    guest.do("ball")
    assert guest.visitor.question.objects == stage.objects()
    assert [one["shape"] for one in stage.objects().values()] == ["sphere", "box"]
    box, ball = stage.obstacles
    box.gizmo.position = np.array([0.6, 0.5, 0.1])
    for phase in ("start", "update", "end"):
        guest.send(box.gizmo, phase)
    guest.work()
    assert not guest.visitor._earlier  # only drags of targets are undone
    asked = guest.visitor.question.objects
    placed = {"position": [0.6, 0.5, 0.1], "orientation_xyzw": [0.0, 0.0, 0.0, 1.0]}
    assert asked["box_1"] == {"shape": "box", "size": [0.15] * 3, **placed}
    guest.click(panel.size, 300.0)  # of the box, which was moved last
    assert guest.visitor.question.objects["box_1"]["size"] == [0.3] * 3
    assert guest.visitor.question.objects["ball_1"]["radius"] == 0.075
    guest.send(ball.gizmo, "update")
    guest.work()
    assert panel.size.value == 150.0
    guest.do("remove")
    assert guest.visitor.question.objects.keys() == {"box_1"}
    assert panel.size.value == 300.0
    for _ in range(OBSTACLES_MOST + 2):
        guest.do("box")
    assert len(stage.obstacles) == len(guest.visitor.question.objects) == OBSTACLES_MOST


def test_new_obstacles_are_free_of_each_other(guest):
    for kind in ("box", "ball", "box", "ball"):
        guest.do(kind)
    places = np.array([one["position"] for one in guest.stage.objects().values()])
    apart = np.linalg.norm(places[:, None] - places, axis=2)[~np.eye(len(BESIDE), dtype=bool)]
    assert apart.min() > 0.2


@pytest.mark.parametrize("name", builtin_robot_names())
def test_every_joint_of_a_built_in_robot_shows_the_result(server, solving, name):
    guest = Guest(server, solving, name)
    bodies, posed, drawing = solving.bodies[name], guest.posed, guest.stage.drawing
    own = {one.color for shown in bodies.values() for one in shown if one.material != JOINT_MATERIAL}
    assert len(own) >= 2
    assert None not in own
    colors = [node.batched_colors[part.share != RESULT].tolist() for part, node in drawing._drawn]
    drawn = {tuple(color) for own_colors in colors for color in own_colors}
    assert drawn == own
    assert "Reached" in guest.status
    shown = {int(dof) for part, _ in drawing._drawn for dof in part.index[part.share == RESULT]}
    slid = [coordinate for _, coordinate, _ in guest.panel.sliders]
    dofs = posed.robot.joint_qd_start[np.searchsorted(posed.robot.joint_q_start, slid)]
    unseen = {posed.robot.dof_names[dof] for dof in dofs if dof not in shown}
    assert len(dofs) >= 1
    assert unseen == ({"platform_" + axis for axis in "xyz"} if name == "delta" else set())  # these have no body
    assert drawn_colors(drawing, np.flatnonzero(~posed.held_dofs())) == {words.GOOD}


def test_dark_is_that_of_the_system(server, solving):
    guest = Guest(server, solving, "panda")
    for is_dark in (True, False, True):
        guest.do("scheme", is_dark)
        assert guest.visitor._is_dark == is_dark
    guest.do("robot", "ur5e")
    assert guest.visitor._is_dark
    assert "Reached" in guest.status


def test_a_page_that_is_dark_stays_dark(server, solving):
    visitor = Visitor(Guest.client_of(server), solving, lambda _: None, is_dark=True)
    visitor.enter("panda")
    visitor.enqueue("scheme", False)
    visitor.work()
    visitor.leave()
    assert visitor._is_dark


def test_a_scheme_that_comes_first_does_not_keep_the_first_solve(guest):
    visitor = guest.visitor
    guest.do("robot", "panda")
    visitor.enqueue("scheme", True)
    visitor.enqueue("again")
    guest.work()
    assert visitor._is_dark
    assert "Reached" in guest.status
