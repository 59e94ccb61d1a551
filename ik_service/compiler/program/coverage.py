"""Which objectives can be compiled."""

from collections.abc import Sequence

from objectives import IKModel
from objectives.expression import reachable
from objectives.expression.operation import Operation
from objectives.expression_objective import ExpressionObjective
from objectives.statement.rows import state_rows


def uncovered(objectives: Sequence[object], model: IKModel) -> str | None:
    """Return why objectives cannot be compiled, or None if they can.

    Args:
        objectives: Objectives of a solver.
        model: View of the robot, to which they are bound.
    """
    for objective in objectives:
        name = type(objective).__name__
        if not isinstance(objective, ExpressionObjective):
            return f"{name} is not stated as expressions"
        for group, _ in objective.stated_elements(model):
            if any(node.operation in (Operation.SIN, Operation.COS) for node in reachable(state_rows(group).rows)):
                return f"{name} takes a sine or cosine"
    return None
