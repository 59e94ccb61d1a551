"""Operations of scalar expressions, with their NumPy functions."""

import enum
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt


class Operation(enum.Enum):
    """Operation of a node of the graph.

    Attributes:
        SIGN: -1 for negative arguments, otherwise 1, also at zero.
        STEP: 1 for positive arguments, otherwise 0, also at zero.
        LESS: A condition, like LESS_EQUAL, BOTH and EITHER.
        WHERE: The second operand if the first, a condition, holds, else the third.
    """

    CONSTANT = "constant"
    VARIABLE = "variable"
    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    NEGATE = "negate"
    SQRT = "sqrt"
    SIN = "sin"
    COS = "cos"
    EXP = "exp"
    LOG = "log"
    ACOS = "acos"
    ATAN2 = "atan2"
    SIGN = "sign"
    STEP = "step"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    LESS = "less"
    LESS_EQUAL = "less equal"
    BOTH = "both"
    EITHER = "either"
    WHERE = "where"


FUNCTIONS: Mapping[Operation, Callable[..., npt.NDArray[np.float64]]] = {
    Operation.ADD: np.add,
    Operation.SUBTRACT: np.subtract,
    Operation.MULTIPLY: np.multiply,
    Operation.DIVIDE: np.divide,
    Operation.NEGATE: np.negative,
    Operation.SQRT: np.sqrt,
    Operation.SIN: np.sin,
    Operation.COS: np.cos,
    Operation.EXP: np.exp,
    Operation.LOG: np.log,
    Operation.ACOS: np.arccos,
    Operation.ATAN2: np.arctan2,
    Operation.SIGN: lambda x: np.where(np.asarray(x) < 0.0, -1.0, 1.0),
    Operation.STEP: lambda x: np.where(np.asarray(x) > 0.0, 1.0, 0.0),
    Operation.MINIMUM: np.minimum,
    Operation.MAXIMUM: np.maximum,
    Operation.LESS: np.less,
    Operation.LESS_EQUAL: np.less_equal,
    Operation.BOTH: np.logical_and,
    Operation.EITHER: np.logical_or,
    Operation.WHERE: np.where,
}
"""NumPy functions of the operations."""

COMPARISONS = frozenset({Operation.LESS, Operation.LESS_EQUAL})
CONDITIONS = COMPARISONS | {Operation.BOTH, Operation.EITHER}  # operations with conditions as results
