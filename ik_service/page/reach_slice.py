"""A slice of the workspace: a grid of places of a target in a plane, each solved, in the colour of what came out."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.page.drawings.geometry import robot_size
from ik_service.page.posed_robot import PosedRobot
from ik_service.page.solving.questions import Answer, AskedTarget, Float64Array, Question
from ik_service.page.words import GOOD, HIT

PLANES: Mapping[str, tuple[int, int]] = {"level": (0, 1), "upright, along x": (0, 2), "upright, along y": (1, 2)}
"""Axes of the world that span each plane, about the robot's base; it goes through the first target that counts."""
PLACES = 41
"""Places along each side."""
WIDTH = 2.2
"""Of the plane, over the size of the robot."""


def slice_question(
    posed: PosedRobot, plane: str, options: Mapping[str, Any], objects: Mapping[str, Any]
) -> tuple[Question, float]:
    """Return the question whether the first target can be met anywhere in a plane, and how far places are apart [m].

    The target keeps its orientation; other targets do not count, and what they alone would move stays where it is.

    Args:
        posed: The robot.
        plane: One of `PLANES`.
        options: Options.
        objects: What is around the robot.
    """
    target, width = posed.asked[0], WIDTH * robot_size(posed.robot)
    base = posed.robot.forward_kinematics(posed.joint_q, [posed.robot.link_names[0]]).positions[0, 0]
    steps = np.linspace(-0.5 * width, 0.5 * width, PLACES)
    places = np.tile(target.pose[:3], (PLACES, PLACES, 1))
    for axis, along in zip(PLANES[plane], np.meshgrid(steps, steps, indexing="ij"), strict=True):
        places[:, :, axis] = base[axis] + along
    positions = places.reshape(-1, 3)
    turns = np.tile(target.pose[3:], (len(positions), 1))
    asked = AskedTarget(target.link, positions, turns, target.free)
    start = np.tile(np.asarray(posed.joint_q), (len(positions), 1))
    question = Question(robot=posed.name, targets=(asked,), initial_joint_q=start, options=options, objects=objects)
    return question, width / (PLACES - 1)


def reached(question: Question, answer: Answer) -> tuple[Float64Array, NDArray[np.uint8]]:
    """Return the places that are within reach [m], and their colours: met, or in contact; shapes [k, 3]."""
    touches = np.array(answer.status) == "blocked_by_collision"
    is_shown = answer.success | touches
    colors = np.where(touches[:, None], np.array(HIT, np.uint8), np.array(GOOD, np.uint8))
    return question.targets[0].positions[is_shown], colors[is_shown]
