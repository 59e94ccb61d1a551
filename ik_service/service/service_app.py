"""The application class: FastAPI with the gate in front of it."""

from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from ik_service.service.gate.admission import Admission
from ik_service.service.gate.gate import Gate
from ik_service.service.gate.logs import AccessLog
from ik_service.service.gate.metrics import ServiceMetrics
from ik_service.service.routes.openapi import add_bodies
from ik_service.settings import ServiceSettings


class ServiceApp(FastAPI):
    """The application.

    Args:
        settings: The settings.
        bound_to: Address that its server listens on; None where it is not known.
        admission: Refuses requests that would be answered too late.
        metrics: Counts all requests.
        log: Has a line for every request; None: there is no log.
        options: For FastAPI.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        bound_to: str | None,
        admission: Admission,
        metrics: ServiceMetrics,
        log: AccessLog | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._gate = settings, bound_to, admission, metrics, log

    def build_middleware_stack(self) -> ASGIApp:
        """Return the gate around FastAPI's layers."""
        return Gate(super().build_middleware_stack(), *self._gate, self.is_draining)

    def openapi(self) -> dict[str, Any]:
        """Return our OpenAPI document."""
        is_new, document = self.openapi_schema is None, super().openapi()
        if is_new:
            add_bodies(document)
        return document

    def is_draining(self) -> bool:
        """Return whether the service is about to end."""
        service = getattr(self.state, "service", None)
        return service is not None and service.draining
