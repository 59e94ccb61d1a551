"""A mouse leads a Panda's hand in the browser: drag the arrows. A filter keeps the joints calm, a clutch lets go.

python examples/mouse_teleoperation.py [--seconds 300] [--port 8080]

Needs the extra `page`.
"""

import argparse
import time
from collections.abc import Sequence

import numpy as np
import viser

import ik_service
from ik_service.control import ControlLimits, IKController, SecondOrderFilter, TeleopTarget
from ik_service.page.drawing import RobotDrawing
from ik_service.page.geometry import robot_parts

DT, MOUSE_S, PICTURE_S = 2e-3, 1 / 60, 1 / 30  # times of a tick, between positions of the mouse, between pictures [s]
LINK, START = "panda_hand", np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])
LIMITS = ControlLimits(acceleration=10.0, linear_speed=0.4, linear_acceleration=2.0, angular_speed=1.5)


def lead(server: viser.ViserServer, seconds: float, sleep=time.sleep) -> np.ndarray:
    """Follow the arrows for some time; return the joint configurations of all ticks, [ticks, 7]."""
    robot = ik_service.load_robot("panda")
    controller = IKController(
        robot, [LINK], limits=LIMITS, target_filter=SecondOrderFilter(natural_frequency=20.0), posture=START
    )
    controller.reset(START)
    controller.warmup()
    home = robot.forward_kinematics(START, [LINK])
    position, turn = home.positions[0, 0], home.orientations_xyzw[0, 0]
    goal = TeleopTarget([*position, *turn])
    mouse = server.scene.add_transform_controls("/mouse", scale=0.3, position=position, wxyz=turn[[3, 0, 1, 2]])
    clutch = server.gui.add_checkbox("Clutch: the hand follows the arrows", initial_value=True)
    drawing = RobotDrawing(server.scene, "/robot", robot, robot_parts(robot, {}), START)
    begun, joint_q = time.perf_counter(), []
    for tick in range(int(seconds / DT)):
        if tick % round(MOUSE_S / DT) == 0:
            goal.follow([*mouse.position, *np.asarray(mouse.wxyz)[[1, 2, 3, 0]]], engaged=clutch.value)
        joint_q.append(controller.step(goal.pose, dt=DT).joint_q[0].copy())  # these would go to the joints
        if tick % round(PICTURE_S / DT) == 0:
            drawing.move(joint_q[-1])
            sleep(max(begun + tick * DT - time.perf_counter(), 0.0))
    return np.array(joint_q)


def main(arguments: Sequence[str] | None = None) -> np.ndarray:
    """Open the page and tell how calm the joints were."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300.0, help="time to play")
    parser.add_argument("--port", type=int, default=8080, help="port of the page; 0 is a free one")
    given = parser.parse_args(arguments)
    server = viser.ViserServer(host="127.0.0.1", port=given.port)
    joint_q = lead(server, given.seconds)
    server.stop()
    rms = np.sqrt(np.mean((np.diff(joint_q, 2, axis=0) / DT**2) ** 2))
    print(f"{len(joint_q)} ticks, rms joint acceleration {rms:.2f} rad/s^2")
    return joint_q


if __name__ == "__main__":
    main()
