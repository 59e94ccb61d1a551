"""Control of robots tick by tick: warm-started, within all joint limits, without allocation once warm."""

from ik_service.control.controller import IKController
from ik_service.control.limits import ControlLimits
from ik_service.control.result import ControlResult
from ik_service.control.tick.joint_box import LimitKind

__all__ = ["ControlLimits", "ControlResult", "IKController", "LimitKind"]
