"""`robot.show`: a robot in some configurations, in a browser or the output of a notebook's cell."""

import contextlib
import io

import numpy as np
import viser
from numpy.typing import ArrayLike

from ik_service.mechanism.configuration import checked_joint_q
from ik_service.page.geometry import visible_bodies
from ik_service.page.page import LOOPBACK, guarded_server
from ik_service.page.posed_robot import PosedRobot
from ik_service.page.stage import Stage
from ik_service.robots import RobotModel, builtin_robot_names, builtin_urdf


class RobotView:
    """A served drawing of a robot, until `close`; `url` is its address.

    Configurations after the first are ghosts. Spheres are of the collision model, the closest two links in red.
    """

    def __init__(self, robot: RobotModel, joint_q: ArrayLike, *, spheres: bool = False) -> None:
        first, *self._ghosts = checked_joint_q(robot, joint_q)
        self._posed, self._spheres = PosedRobot(robot.name, robot), spheres and robot.collision_model is not None
        self._posed.joint_q, self._posed.targets = first, {}
        self._bodies = visible_bodies(builtin_urdf(robot.name)) if robot.name in builtin_robot_names() else {}
        with contextlib.redirect_stdout(io.StringIO()), guarded_server(LOOPBACK, lambda *_: None):
            self._server = viser.ViserServer(host=LOOPBACK, port=0, verbose=False)
        self.url = f"http://{LOOPBACK}:{self._server.get_port()}"
        self._server.on_client_connect(self._draw)

    def _draw(self, client: viser.ClientHandle) -> Stage:
        client.gui.configure_theme(show_logo=False, show_share_button=False)
        stage = Stage(client, self._posed, self._bodies, lambda _: None)
        stage.dress(is_dark=False)
        stage.show_ghosts(self._posed, np.array(self._ghosts))
        stage.show_spheres(self._posed, visible=self._spheres)
        return stage

    def _repr_html_(self) -> str:
        return f'<iframe src="{self.url}" width="100%" height="480"></iframe>'

    def __repr__(self) -> str:
        return f"<RobotView of '{self._posed.name}' at {self.url}>"

    def close(self) -> None:
        """Stop to serve the drawing."""
        self._server.stop()
