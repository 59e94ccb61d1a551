"""The scene around the targets: obstacles, bodies from the file of the robot, dark or light."""

import numpy as np
import pytest

from ik_service.page import words
from ik_service.page.geometry import JOINT_MATERIAL, RESULT
from ik_service.page.stage import BESIDE, OBSTACLES_MOST
from ik_service.page.visitor import Visitor
from ik_service.robots import builtin_robot_names
from tests.page.guests import Guest, drawn_colors


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
    asked = guest.visitor.question.objects
    assert asked["box_1"] == {
        "shape": "box",
        "size": [0.15] * 3,
        "position": [0.6, 0.5, 0.1],
        "orientation_xyzw": [0.0, 0.0, 0.0, 1.0],
    }
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
    bodies, posed, drawing = solving.bodies(name), guest.posed, guest.stage.drawing
    own = {one.color for shown in bodies.values() for one in shown if one.material != JOINT_MATERIAL}
    assert len(own) >= 2
    assert None not in own
    drawn = {
        tuple(color) for part, node in drawing._drawn for color in node.batched_colors[part.share != RESULT].tolist()
    }
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
