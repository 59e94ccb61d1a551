"""Derivatives of rows by the DOFs of an island: through the twists of frames, and directly by coordinates."""

from collections.abc import Iterator, Sequence

from ik_service.compiler.applied_rows import AppliedGroup, IslandScope, body_of
from ik_service.compiler.island_program import total
from ik_service.compiler.transplant import transplant
from ik_service.mechanism.kinematic_robot import KinematicRobot
from objectives.expression import Expression, Scalar
from objectives.expression.rows import state_rows


def jacobian_row(
    one: AppliedGroup, row: int, values: Sequence[dict[str, Scalar]], scope: IslandScope
) -> list[Expression]:
    """Give the derivatives of a row by the active DOFs of the island."""
    robot, graph, stated = scope.robot, scope.graph, state_rows(one.group)
    zero = graph.constant(0.0)
    place = {dof: k for k, dof in enumerate(scope.dofs)}
    result = [zero] * len(scope.dofs)

    def add(dof: int, term: Scalar) -> None:
        active = int(robot.dof_active[dof])
        if active in place:
            result[place[active]] = result[place[active]] + term * float(robot.dof_multiplier[dof])

    by_twists = _summed_by_twists if one.group.summed else _by_twists
    for dof, parts in by_twists(one, row, values, scope):
        add(dof, total((p * t for p, t in zip(parts, scope.chain.twists[dof], strict=True)), zero))
    for element, own in zip(one.elements, values, strict=True):
        for k, dof in enumerate(element.coordinate_dofs):
            add(dof, transplant([stated.coordinate_derivatives[k][row]], own, graph)[0])
        for k, joint in enumerate(element.quaternion_joints):
            first = int(robot.joint_qd_start[joint + 1]) - 3
            for m, part in enumerate(transplant(stated.quaternion_derivatives[k][row], own, graph)):
                add(first + m, part)
    return result


def _by_twists(
    one: AppliedGroup, row: int, values: Sequence[dict[str, Scalar]], scope: IslandScope
) -> Iterator[tuple[int, Sequence[Expression]]]:
    """Give the DOFs that move an element's frames, each with the derivative by the moved frame's twist."""
    robot, stated = scope.robot, state_rows(one.group)
    (element,), (own,) = one.elements, values
    moving = [moving_dofs(robot, body_of(robot, link)) for link in element.frames]
    common = set.intersection(*moving) if stated.common_motion_cancels and moving else set()
    for k, by_twist in enumerate(stated.frame_derivatives):
        parts = transplant(by_twist[row], own, scope.graph)
        for dof in sorted(moving[k] - common):
            yield dof, parts


def _summed_by_twists(
    one: AppliedGroup, row: int, values: Sequence[dict[str, Scalar]], scope: IslandScope
) -> Iterator[tuple[int, Sequence[Expression]]]:
    """Give the same for a summed group: all frames behind a DOF have one twist, so their derivatives add up."""
    robot, stated = scope.robot, state_rows(one.group)
    behind: dict[int, list[Expression]] = {}

    def add(body: int, parts: Sequence[Expression]) -> None:
        behind[body] = [a + b for a, b in zip(behind[body], parts, strict=True)] if body in behind else list(parts)

    for element, own in zip(one.elements, values, strict=True):
        for k, link in enumerate(element.frames):
            add(body_of(robot, link), transplant(stated.frame_derivatives[k][row], own, scope.graph))
    for body in reversed(range(robot.body_count)):  # parents stand before their children
        if body in behind:
            add(int(robot.joint_parent[body]), behind[body])
    for body in sorted(behind.keys() - {-1}):
        for dof in range(int(robot.joint_qd_start[body]), int(robot.joint_qd_start[body + 1])):
            yield dof, behind[body]


def moving_dofs(robot: KinematicRobot, body: int) -> set[int]:
    """Give the DOFs that move a body."""
    found: set[int] = set()
    while body >= 0:
        found |= set(range(int(robot.joint_qd_start[body]), int(robot.joint_qd_start[body + 1])))
        body = int(robot.joint_parent[body])
    return found
