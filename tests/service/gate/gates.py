"""Gates around applications of tests."""

from collections.abc import Callable, Sequence
from typing import Any

from ik_service.service.gate.admission import Admission
from ik_service.service.gate.gate import Gate
from ik_service.settings import ServiceSettings

KEYS = {name: f"{name}-0123456789abcdef" for name in ("flood", "calm")}


class Record:
    """Observer of refusals: reasons, and statuses of what was answered unread."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.statuses: list[int] = []

    def refused(self, reason: str) -> None:
        self.reasons.append(reason)

    def answered_unread(self, status: int, seconds: float) -> None:
        self.statuses.append(status)


def gate_around(
    app: Callable[..., Any],
    *,
    observers: Sequence[Any] = (),
    draining: bool = False,
    admission: Admission | None = None,
    **options: Any,
) -> Gate:
    """The gate of a service with some settings; without API keys where these name none."""
    settings = ServiceSettings(**{"insecure": True, **options})
    return Gate(app, settings, None, admission or Admission(10.0, Record()), observers, lambda: draining)
