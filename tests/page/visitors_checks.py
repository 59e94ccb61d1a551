"""What a visitor's clicks do to the scene and the panel, without a browser: the server's own scene stands for it."""

import contextlib
import io
import queue
from types import SimpleNamespace

import numpy as np
import pytest
import viser

from ik_service.page import LocalSolving, Page, PageError
from ik_service.page.solving.questions import ROTATIONS
from ik_service.page.stage import pose_of
from ik_service.page.visitor import Visitor
from tests.bounded import until

DRAWN_M = 1e-6  # positions are sent as float32


@pytest.fixture(scope="module")
def server():
    with contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
        yield server
        server.stop()


@pytest.fixture(scope="module")
def solving():
    return LocalSolving("cpu")


class Guest:
    """A visitor whose wishes are done at once."""

    def __init__(self, server, solving, robot):
        camera = SimpleNamespace()
        client = SimpleNamespace(
            scene=server.scene, gui=server.gui, camera=camera, flush=server.flush, atomic=server.atomic
        )
        self.waiting = queue.SimpleQueue()
        self.visitor = Visitor(client, solving, robot, self.waiting.put)
        self.work()

    def work(self):
        while not self.waiting.empty():
            self.waiting.get().work()
        self.visitor.refresh()

    def drag(self, link, way):
        gizmo = self.visitor.stage.gizmos[link]
        gizmo.position = gizmo.position + np.array(way)
        self.visitor._dragged()
        self.work()
        return gizmo

    def click(self, handle, value):
        """Set a value as a browser does."""
        handle._impl.value = value
        for changed in handle._impl.update_cb:
            with contextlib.suppress(StopIteration):
                changed(SimpleNamespace(client="a browser")).send(None)
        self.work()


@pytest.fixture
def guest(server, solving):
    return Guest(server, solving, "panda")


def test_the_drawn_hand_follows_its_target(guest):
    for way in ([0.02, 0.0, -0.03], [0.0, 0.05, 0.0]):
        gizmo = guest.drag("panda_hand", way)
        drawn = guest.visitor.stage.drawing.drawn_position("panda_hand")
        assert np.linalg.norm(drawn - gizmo.position) < 1e-3
    visitor = guest.visitor
    hand = visitor.posed.robot.forward_kinematics(visitor.posed.joint_q, ["panda_hand"]).positions[0, 0]
    assert np.abs(drawn - hand).max() < DRAWN_M
    assert "Reached" in visitor.panel.status.content
    assert not visitor.stage._miss.visible
    assert (visitor.solves, len(visitor.latencies)) == (3, 2)


def test_a_target_out_of_reach_is_said_and_drawn(guest):
    guest.drag("panda_hand", [2.0, 0.0, 0.0])
    visitor = guest.visitor
    assert visitor.posed.answer.advice in visitor.panel.status.content
    assert "Reached" not in visitor.panel.status.content
    assert visitor.stage._miss.visible
    assert np.abs(visitor.stage._miss.points[0, 1] - visitor.stage.gizmos["panda_hand"].position).max() < DRAWN_M


def test_scene_nodes_stay_while_dragging(guest):
    nodes = dict(guest.visitor._client.scene._handle_from_node_name)
    for _ in range(5):
        guest.drag("panda_hand", [0.01, 0.0, 0.0])
    assert nodes == guest.visitor._client.scene._handle_from_node_name
    assert len(nodes) > 8


def test_sliders_move_the_robot_and_its_target(guest):
    visitor = guest.visitor
    slider = visitor.panel.sliders[0]
    guest.click(slider.handle, 30.0)
    assert visitor.posed.joint_q[0] == pytest.approx(np.radians(30.0))
    hand = visitor.posed.robot.forward_kinematics(visitor.posed.joint_q, ["panda_hand"]).positions[0, 0]
    assert np.abs(visitor.stage.gizmos["panda_hand"].position - hand).max() < DRAWN_M
    assert "Posed by hand" in visitor.panel.status.content
    guest.drag("panda_hand", [0.0, 0.0, -0.02])
    assert slider.handle.value == pytest.approx(np.degrees(visitor.posed.joint_q[0]), abs=0.01)


def test_free_axes_change_what_is_asked(guest):
    guest.visitor.target_changed("panda_hand", free=("rz",))
    guest.work()
    assert guest.visitor.posed.targets["panda_hand"].free == ("rz",)
    assert '"free": ["rz"]' in guest.visitor.panel.request.content.replace("&quot;", '"')
    guest.visitor.target_changed("panda_hand", free=ROTATIONS)
    guest.work()
    assert "free</td>" in guest.visitor.panel.status.content


def test_numbers_put_a_target(guest):
    guest.click(guest.visitor.panel.positions["panda_hand"], (0.4, 0.1, 0.5))
    drawn = guest.visitor.stage.drawing.drawn_position("panda_hand")
    assert np.linalg.norm(drawn - [0.4, 0.1, 0.5]) < 1e-3


def test_other_solutions_are_ghosts_to_be_taken(guest):
    visitor = guest.visitor
    visitor.asked("solutions")
    guest.work()
    count = len(visitor._others)
    assert count >= 2
    assert visitor.stage._ghosts is not None
    assert len(visitor.panel.solution.options) == count + 1
    taken, target = visitor._others[1].copy(), pose_of(visitor.stage.gizmos["panda_hand"])
    guest.click(visitor.panel.solution, "ghost 2")
    assert np.abs(visitor.posed.joint_q - taken).max() < 1e-3
    assert np.abs(pose_of(visitor.stage.gizmos["panda_hand"])[:3] - target[:3]).max() < 1e-3
    assert visitor.stage._ghosts is None
    assert visitor.panel.solution.disabled


def test_random_targets_are_counted(guest):
    guest.visitor.asked("random")
    guest.work()
    assert "1000 of 1000 reached" in guest.visitor.panel.random.content


def test_spheres_and_an_obstacle(guest):
    visitor = guest.visitor
    guest.click(visitor.panel.spheres, True)
    spheres = visitor.stage._spheres
    assert spheres.is_shown
    a, b = spheres._line.points[0]
    check = visitor.posed.robot.collision(visitor.posed.joint_q)
    assert np.linalg.norm(a - b) == pytest.approx(check.clearance[0], abs=1e-5)
    guest.click(visitor.panel.obstacle, "box")
    assert visitor.stage.objects()["obstacle"]["size"] == [0.15] * 3
    obstacle, hand = visitor.stage._obstacle, visitor.stage.gizmos["panda_hand"].position
    obstacle.position = hand
    visitor._dragged()
    guest.work()
    assert "In contact" in visitor.panel.status.content
    assert "obstacle" in visitor.posed.answer.closest
    for kind, gap in (("box", 0.15), ("sphere", 0.15)):
        guest.click(visitor.panel.obstacle, kind)
        visitor.stage._obstacle.position = hand + np.array([0.0, 0.4, 0.0])
        visitor._dragged()
        guest.work()
        assert visitor.posed.answer.success[0]
        closest = visitor.posed.robot.collision(visitor.posed.joint_q, None)
        assert closest.clearance[0] > 0.0
        objects = visitor.stage.objects()
        assert objects["obstacle"]["shape"] == kind
        from ik_service.robots.files.geometry.world_file import read_world

        world = read_world({"objects": objects})
        a, b = spheres.closest_points(visitor.posed.joint_q, ("panda_hand", "obstacle"), world)
        assert abs(world.objects["obstacle"].signed_distance(b[None])[0]) < 1e-5
        assert 0.0 < np.linalg.norm(a - b) < 0.4 + gap
    guest.click(visitor.panel.obstacle, "none")
    assert visitor.stage.objects() == {}


def test_collision_can_be_left_out(guest):
    guest.click(guest.visitor.panel.collision, False)
    assert guest.visitor.posed.answer.closest is None
    assert "collision" in guest.visitor.panel.request.content
    guest.click(guest.visitor.panel.obstacle, "box")
    assert guest.visitor.trouble == ""
    assert guest.visitor._question.objects == {}
    guest.click(guest.visitor.panel.collision, True)
    assert guest.visitor._question.objects.keys() == {"obstacle"}


def test_one_arm_of_two_stays_to_the_bit(server, solving):
    guest = Guest(server, solving, "dual_panda")
    before = guest.visitor.posed.joint_q.copy()
    for _ in range(10):
        guest.drag("left_panda_hand", [0.004, 0.002, -0.003])
    assert guest.visitor.posed.joint_q[7:].tobytes() == before[7:].tobytes()
    assert (guest.visitor.posed.joint_q[:7] != before[:7]).any()


def test_another_robot_is_shown_from_the_beginning(guest):
    guest.visitor.robot_chosen("ur5e")
    guest.work()
    assert list(guest.visitor.stage.gizmos) == ["tool0"]
    assert guest.visitor.posed.answer.success[0]
    guest.visitor.asked("restart")
    guest.work()
    assert guest.visitor.posed.answer is None


class Flaky:
    """Solves, but for some questions."""

    def __init__(self, solving):
        self._solving, self.trouble = solving, None
        self.robots, self.workers, self.address, self.robot = ("panda",), 1, solving.address, solving.robot

    def solve(self, question):
        if self.trouble is not None:
            raise self.trouble
        return self._solving.solve(question)

    def close(self):
        self.trouble = PageError("closed")


def test_who_does_not_answer_is_asked_again(server, solving):
    flaky = Flaky(solving)
    guest = Guest(server, flaky, "panda")
    flaky.trouble = PageError("The service <rests>.", may_pass=True)
    gizmo = guest.drag("panda_hand", [0.0, 0.0, -0.02])
    assert "The service &lt;rests&gt;." in guest.visitor.panel.status.content
    flaky.trouble = None
    until(lambda: not guest.waiting.empty())
    guest.work()
    assert "Reached" in guest.visitor.panel.status.content
    assert np.linalg.norm(guest.visitor.stage.drawing.drawn_position("panda_hand") - gizmo.position) < 1e-3


def test_a_fault_of_ours_is_told_and_logged(server, solving, caplog):
    flaky = Flaky(solving)
    guest = Guest(server, flaky, "panda")
    flaky.trouble = ZeroDivisionError("by zero")
    guest.drag("panda_hand", [0.0, 0.0, -0.02])
    assert "Something went wrong here: by zero" in guest.visitor.panel.status.content
    assert "by zero" in caplog.text


def test_who_has_left_gets_nothing_more(guest):
    guest.visitor.leave()
    solves = guest.visitor.solves
    guest.drag("panda_hand", [0.01, 0.0, 0.0])
    assert guest.visitor.solves == solves


def test_a_page_without_its_robot_or_port_is_refused(solving):
    with pytest.raises(PageError, match="no robot 'nobody'"):
        Page(Flaky(solving), "nobody")
    with Page(Flaky(solving)) as page, pytest.raises(PageError, match="--port"):
        Page(Flaky(solving), port=int(page.url.rpartition(":")[2]))
