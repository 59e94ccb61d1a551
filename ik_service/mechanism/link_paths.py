"""Paths of links through the tree."""

from ik_service.mechanism.kinematic_robot import KinematicRobot


def path_to_root(robot: KinematicRobot, link: int) -> list[int]:
    """Give a link and all above it, the root last."""
    path = []
    while link >= 0:
        path.append(link)
        link = int(robot.link_parent[link])
    return path


def path_between(robot: KinematicRobot, first: int, second: int) -> tuple[list[int], int]:
    """Give the links on the way from one to another, both among them, and the one of them that is above the others."""
    up, down = path_to_root(robot, first), path_to_root(robot, second)
    common = next(link for link in up if link in down)
    return [*up[: up.index(common)], common, *reversed(down[: down.index(common)])], common
