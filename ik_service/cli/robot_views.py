"""`ik-service robots`: the list, one robot's joints, and its tree."""

import math

from rich.table import Table
from rich.tree import Tree

from ik_service.cli.console import escaped, output_console
from ik_service.mechanism.names import mover
from ik_service.robots import RobotModel, builtin_robot_names, load_robot
from ik_service.service.documents.robot import robot_body, robot_summary
from ik_service.service.schema.robot import JointBody


def print_robots() -> None:
    """Print the built-in robots with their sizes."""
    table = Table("robot", "coordinates", "DOFs", "active DOFs", "leaf links")
    for name in builtin_robot_names():
        robot = robot_summary(name, load_robot(name))
        sizes = (robot.joint_coord_count, robot.joint_dof_count, robot.active_dof_count)
        table.add_row(name, *map(str, sizes), ", ".join(robot.leaf_links))
    output_console().print(table)


def print_robot(name: str) -> None:
    """Print a robot's joints with their limits, and its links; InputError for an unknown or unreadable robot."""
    model = load_robot(name)
    robot = robot_body(model.name, model)
    table = Table("DOF", "type", "lower", "upper", "moved by", title=escaped(robot.name), title_justify="left")
    for joint in robot.joints:
        for dof in joint.dofs:
            limits = (_limit(dof.lower, -math.inf), _limit(dof.upper, math.inf))
            table.add_row(
                escaped(dof.name), joint.type, *limits, escaped(mover(model, model.dof_names.index(dof.name)))
            )
    console = output_console()
    console.print(table)
    console.print(f"Links: {', '.join(link.name for link in robot.links)}", markup=False, soft_wrap=True)
    console.print(model.collision_words, markup=False, soft_wrap=True)
    for loop in robot.loops:
        other = "the world" if loop.reference_link is None else loop.reference_link
        console.print(f"Loop {loop.name}: {loop.joint}, {loop.link} to {other}", markup=False, soft_wrap=True)
    for warning in robot.warnings:
        console.print(f"Warning: {warning}", markup=False, soft_wrap=True)


def print_tree(name: str) -> None:
    """Print a robot's links as a tree, each with its parent joint; InputError for an unknown or unreadable robot."""
    model = load_robot(name)
    robot, count = robot_body(model.name, model), model.trees.ntree
    root = Tree(f"[bold]{escaped(robot.name)}[/]: {count} kinematic tree{'' if count == 1 else 's'}")
    joints = {joint.child_link: joint for joint in robot.joints}
    branches: dict[str | None, Tree] = {None: root}
    for link in robot.links:  # parents come before their children
        label = escaped(link.name)
        if link.name in joints:
            label = f"{_joint_label(model, joints[link.name])} -> {label}"
        branches[link.name] = branches[link.parent].add(label)
    output_console().print(root)


def _joint_label(robot: RobotModel, joint: JointBody) -> str:
    ranges = [
        f" {_limit(dof.lower, -math.inf)} .. {_limit(dof.upper, math.inf)}"
        for dof in joint.dofs
        if dof.lower is not None or dof.upper is not None
    ]
    movers = {mover(robot, robot.dof_names.index(dof.name)) for dof in joint.dofs} - {"the solver"}
    moved = "".join(f", moved by {escaped(one)}" for one in sorted(movers))
    return f"[cyan]{escaped(joint.name)}[/] {joint.type}{','.join(ranges)}{moved}"


def _limit(value: float | None, missing: float) -> str:
    return f"{missing if value is None else value:.4g}"
