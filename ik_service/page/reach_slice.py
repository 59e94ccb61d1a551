"""A slice of the workspace: a grid of positions of the first target in a plane, each solved, colored by the result."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array
from ik_service.page.geometry import robot_size
from ik_service.page.posed_robot import PosedRobot
from ik_service.page.questions import Answer, AskedTarget, Question
from ik_service.page.words import GOOD, HIT

PLANES: Mapping[str, tuple[int, int]] = {"level": (0, 1), "upright, along x": (0, 2), "upright, along y": (1, 2)}
"""Axes of the world that span each plane, about the robot's base; it goes through the first target that counts."""
PLACES = 41  # places along each side
WIDTH = 2.2  # of the plane, over the size of the robot


class ReachSlice:
    """A requested slice: its question, with one problem per grid position, and the grid spacing `apart` [m].

    The target keeps its orientation; other targets are inactive, and joints that serve only other targets stay fixed.
    """

    def __init__(self, posed: PosedRobot, plane: str, options: Mapping[str, Any], objects: Mapping[str, Any]) -> None:
        target, width = posed.asked[0], WIDTH * robot_size(posed.robot)
        base = posed.robot.forward_kinematics(posed.joint_q, [posed.robot.link_names[0]]).positions[0, 0]
        steps, self.apart = np.linspace(-0.5 * width, 0.5 * width, PLACES), width / (PLACES - 1)
        places = np.tile(target.pose[:3], (PLACES, PLACES, 1))
        for axis, along in zip(PLANES[plane], np.meshgrid(steps, steps, indexing="ij"), strict=True):
            places[:, :, axis] = base[axis] + along
        self._places = places.reshape(-1, 3)
        turns = np.tile(target.pose[3:], (len(self._places), 1))
        asked = AskedTarget(target.link, self._places, turns, target.free)
        start = np.tile(np.asarray(posed.joint_q), (len(self._places), 1))
        given: dict[str, Any] = {"initial_joint_q": start, "options": options, "objects": objects}
        self.question = Question(robot=posed.name, targets=(asked,), **given)

    def reached(self, answer: Answer) -> tuple[Float64Array, NDArray[np.uint8]]:
        """Return the reachable positions [m], and their colors, shapes [k, 3]."""
        touches = np.array(answer.status) == "blocked_by_collision"
        colors = np.where(touches[:, None], HIT, GOOD).astype(np.uint8)
        is_shown = answer.success | touches
        return self._places[is_shown], colors[is_shown]
