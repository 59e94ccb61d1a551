"""Control of robots tick by tick: warm-started, within all joint limits, without allocation once warm."""

from ik_service.control.controller import IKController
from ik_service.control.joint_box import LimitKind
from ik_service.control.limits import ControlLimits
from ik_service.control.result import ControlResult

__all__ = ["ControlLimits", "ControlResult", "IKController", "LimitKind"]
