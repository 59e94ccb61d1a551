"""The application class: FastAPI with the gate in front of it."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from ik_service.service.gate.admission import Admission
from ik_service.service.gate.gate import Gate, RequestObserver
from ik_service.service.routes.openapi import add_bodies
from ik_service.settings import ServiceSettings


class ServiceApp(FastAPI):
    """The application.

    Args:
        settings: The settings.
        bound_to: Address that its server listens on; None where it is not known.
        admission: Refuses requests that would be answered too late.
        observers: Notified of every request.
        options: For FastAPI.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        bound_to: str | None,
        admission: Admission,
        observers: Sequence[RequestObserver] = (),
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._settings, self._bound_to, self._admission, self._observers = settings, bound_to, admission, observers

    def build_middleware_stack(self) -> ASGIApp:
        """Return the gate around FastAPI's layers."""
        inner = super().build_middleware_stack()
        return Gate(inner, self._settings, self._bound_to, self._admission, self._observers, self.is_draining)

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
