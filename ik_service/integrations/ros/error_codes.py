"""Error codes of MoveIt for answers, in addition to the codes of `IKStatus`, and the refusal of a request."""

from enum import IntEnum
from typing import Any

from objectives.errors import InputError

SOURCE = "ik_service"  # source that answers name, where their messages have a field for it


class MoveItErrorCode(IntEnum):
    """Values of `moveit_msgs/MoveItErrorCodes` for requests refused before a solve."""

    SUCCESS = 1
    INVALID_GROUP_NAME = -15
    INVALID_GOAL_CONSTRAINTS = -16
    INVALID_ROBOT_STATE = -17
    INVALID_LINK_NAME = -18
    FRAME_TRANSFORM_FAILURE = -21
    NO_IK_SOLUTION = -31
    FAILURE = 99999


class RequestRefusedError(InputError):
    """A request without a possible answer; nothing was solved. The answer has the error code."""

    def __init__(self, code: MoveItErrorCode, reason: str) -> None:
        self.code = code
        super().__init__(reason)


def write_error_code(error_code: Any, value: int, message: str = "") -> None:
    """Fill a `MoveItErrorCodes`; older distributions have no text field."""
    error_code.val = int(value)
    if hasattr(error_code, "message"):
        error_code.message = message
        error_code.source = SOURCE
