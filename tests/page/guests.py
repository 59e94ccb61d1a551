"""A visitor without a browser: the server's own scene stands for it."""

import contextlib
import io
import queue
from types import SimpleNamespace

import numpy as np
import viser

from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.page.geometry import RESULT
from ik_service.page.visitor import Visitor


def drawn_position(drawing, link):
    """Return where a link is [m], shape [3], by the last drawn pose of a part that moves with it."""
    body, frame = drawing._robot.link_frame(link)
    part, node = next(one for one in drawing._drawn if (one[0].body == body).any())
    place = int(np.flatnonzero(part.body == body)[0])
    turn = np.asarray(node.batched_wxyzs[place], np.float64)[[1, 2, 3, 0]]
    drawn = np.concatenate([node.batched_positions[place], turn / np.linalg.norm(turn)])
    return transform_multiply(transform_multiply(drawn, transform_inverse(part.X_body[place])), frame)[:3]


def drawn_colors(drawing, dofs=None):
    """Return the colors of the parts of joints, {(red, green, blue)}; of all joints, or of some by their DOFs."""
    return {
        tuple(color)
        for part, node in drawing._drawn
        for color in node.batched_colors[
            (part.share == RESULT) & (True if dofs is None else np.isin(part.index, dofs))
        ].tolist()
    }


@contextlib.contextmanager
def scene_server():
    with contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    server.guests = []
    yield server
    for guest in server.guests:
        guest.visitor.leave()
    with contextlib.redirect_stdout(io.StringIO()):
        server.stop()


class Guest:
    """A visitor for whom all is done at once."""

    def __init__(self, server, solving, robot):
        self.waiting = queue.SimpleQueue()
        self.visitor = Visitor(self.client_of(server), solving, self.waiting.put)
        self.visitor.enter(robot)
        server.guests.append(self)
        self.work()

    @staticmethod
    def client_of(server):
        names = {name: getattr(server, name) for name in ("scene", "gui", "flush", "atomic")}
        return SimpleNamespace(client_id=7, camera=SimpleNamespace(), **names)

    @staticmethod
    def _run(callback):
        with contextlib.suppress(StopIteration):
            callback.send(None)

    def work(self):
        while not self.waiting.empty():
            self.waiting.get().work()
        self.visitor.enqueue("refresh")
        self.waiting.get().work()

    def do(self, action, value=None):
        self.visitor.enqueue(action, value)
        self.work()

    panel = property(lambda guest: guest.visitor.panel)
    stage = property(lambda guest: guest.visitor.stage)
    posed = property(lambda guest: guest.visitor.posed)
    status = property(lambda guest: guest.panel.status.content)

    def place(self, link):
        return self.posed.robot.forward_kinematics(self.posed.joint_q, [link]).positions[0, 0]

    def until(self, condition):
        """Do what comes until a condition holds; nothing comes for 10 s where it never does."""
        while not condition():
            self.waiting.get(timeout=10.0).work()

    def drag(self, link, way):
        gizmo = self.visitor.stage.gizmos[link]
        gizmo.position = gizmo.position + np.array(way)
        self.visitor.dragged()
        self.work()
        while (self.visitor.posed.targets[link].pose[:3] != gizmo.position).any():
            self.waiting.get(timeout=10.0).work()  # a step on the way there
        self.work()
        return gizmo

    def send(self, gizmo, phase):
        """Say what a browser says of a drag: "start", "update" or "end"."""
        for moved in gizmo._impl_aux.update_cb:
            self._run(moved(SimpleNamespace(phase=phase)))

    def click_link(self, link):
        """Click on what is drawn of a link; return whether that is heard."""
        drawing, number = self.visitor.stage.drawing, self.visitor.posed.robot.link_index(link)
        part, node = next((part, node) for part, node in drawing._drawn if number in part.link)
        heard = list(node._impl.click_cb)
        for entry in heard:
            self._run(entry.callback(SimpleNamespace(instance_index=int(np.flatnonzero(part.link == number)[0]))))
        self.work()
        return bool(heard)

    def click(self, handle, value):
        handle._impl.value = value
        for changed in handle._impl.update_cb:
            self._run(changed(SimpleNamespace(client="a browser")))
        self.work()
