"""Control of robots tick by tick: warm-started, within all joint limits, without allocation after the first ticks."""

from ik_service.control.caller_arrays import ControlResult
from ik_service.control.controller import IKController
from ik_service.control.limits import ControlLimits, LimitKind
from ik_service.control.target_filter import OneEuroFilter, SecondOrderFilter
from ik_service.control.teleop_target import TeleopTarget

__all__ = ["ControlLimits", "ControlResult", "IKController", "LimitKind"]
__all__ += ["OneEuroFilter", "SecondOrderFilter", "TeleopTarget"]
