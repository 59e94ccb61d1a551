"""Control of robots tick by tick: warm-started, within all joint limits, without allocation after the first ticks."""

from ik_service.control.caller_arrays import ControlResult
from ik_service.control.controller import IKController
from ik_service.control.limits import ControlLimits, LimitKind

__all__ = ["ControlLimits", "ControlResult", "IKController", "LimitKind"]
