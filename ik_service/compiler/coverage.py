"""Which objectives can be compiled."""

from collections.abc import Sequence

from objectives.expression.expression_objective import ExpressionObjective


def uncovered(objectives: Sequence[object]) -> str | None:
    """Return why objectives of a solver cannot be compiled, or None if they can."""
    for objective in objectives:
        if not isinstance(objective, ExpressionObjective):
            return f"{type(objective).__name__} is not stated as expressions"
    return None
