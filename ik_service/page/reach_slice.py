"""A slice of the workspace: a grid of positions in a plane, each solved, colored by the result.

The positions are positions of the first target, or of the tip of a tool mounted at the target.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array, quaternion_rotate
from ik_service.page.geometry import robot_size
from ik_service.page.posed_robot import PosedRobot
from ik_service.page.questions import Answer, AskedTarget, Question
from ik_service.page.words import FAR_COLOR, GOOD, HIT

PLANES: Mapping[str, tuple[int, int]] = {"level": (0, 1), "upright, along x": (0, 2), "upright, along y": (1, 2)}
"""Axes of the world that span each plane, about the robot's base; it goes through the first target that counts."""
PLACES = 41  # places along each side
WIDTH = 2.2  # of the plane, over the size of the robot
WELL_CLEAR = 0.05  # clearance that has the colour of the best, over the size of the robot


@dataclass(frozen=True)
class SliceView:
    """View of a slice."""

    plane: str  # one of `PLANES`
    tool_length: float = 0.0  # distance of the tool tip from the target's link, along z of the target [m]
    by_clearance: bool = False  # whether colors show the clearance of the robot


class ReachSlice:
    """A requested slice: its question, with one problem per grid position, and the grid spacing `apart` [m].

    The target keeps its orientation; other targets are inactive, and joints that serve only other targets stay fixed.
    """

    def __init__(
        self, posed: PosedRobot, view: SliceView, options: Mapping[str, Any], objects: Mapping[str, Any]
    ) -> None:
        target, width = posed.asked[0], WIDTH * robot_size(posed.robot)
        tool = quaternion_rotate(target.pose[3:], np.array([0.0, 0.0, view.tool_length]))
        base = posed.robot.forward_kinematics(posed.joint_q, [posed.robot.link_names[0]]).positions[0, 0]
        steps = np.linspace(-0.5 * width, 0.5 * width, PLACES)
        places = np.tile(target.pose[:3] + tool, (PLACES, PLACES, 1))
        for axis, along in zip(PLANES[view.plane], np.meshgrid(steps, steps, indexing="ij"), strict=True):
            places[:, :, axis] = base[axis] + along
        self._places, self._by_clearance = places.reshape(-1, 3), view.by_clearance
        self._well_clear, self.apart = WELL_CLEAR * robot_size(posed.robot), width / (PLACES - 1)
        turns = np.tile(target.pose[3:], (len(self._places), 1))
        asked = AskedTarget(target.link, self._places - tool, turns, target.free)
        start = np.tile(np.asarray(posed.joint_q), (len(self._places), 1))
        given: dict[str, Any] = {"initial_joint_q": start, "options": options, "objects": objects}
        self.question = Question(robot=posed.name, targets=(asked,), **given)

    def reached(self, answer: Answer) -> tuple[Float64Array, NDArray[np.uint8]]:
        """Return the reachable positions [m], and their colors, shapes [k, 3]."""
        touches = np.array(answer.status) == "blocked_by_collision"
        is_shown = answer.success | touches
        share = np.clip(answer.clearance / self._well_clear, 0.0, 1.0) if self._by_clearance else np.ones(len(touches))
        free = np.array(FAR_COLOR) + share[:, None] * np.subtract(GOOD, FAR_COLOR)
        colors = np.where(touches[:, None], HIT, free).round().astype(np.uint8)
        return self._places[is_shown], colors[is_shown]
