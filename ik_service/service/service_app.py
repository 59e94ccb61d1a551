"""The application class: FastAPI with the ASGI layers of the service around it.

early refusal -> request ids, errors, observers -> limits of bodies -> CORS -> API keys -> shares of keys -> routes
"""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from ik_service.service.gate.access import AccessMiddleware
from ik_service.service.gate.admission import Admission
from ik_service.service.gate.body_limits import BodyLimitMiddleware
from ik_service.service.gate.early_refusal import EarlyRefusalMiddleware
from ik_service.service.gate.request_memory import MemoryBudget
from ik_service.service.gate.request_middleware import RequestMiddleware, RequestObserver
from ik_service.service.gate.request_shares import RequestShareMiddleware
from ik_service.service.routes.openapi import add_bodies
from ik_service.settings import ServiceSettings

_CORS_METHODS = ("GET", "POST", "PUT", "DELETE")
_CORS_HEADERS = ("Authorization", "Content-Type", "If-Match", "If-None-Match", "Prefer", "X-API-Key", "X-Request-ID")


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
        self._settings, self._bound_to, self._observers = settings, bound_to, observers
        self._admission, self._is_shared, refused = admission, len(settings.keys) > 1, admission.observer.refused
        limits = settings.memory_bytes, settings.max_answer_bytes
        self._memory_budget = MemoryBudget(*limits, is_shared=self._is_shared, refused=refused)

    def build_middleware_stack(self) -> ASGIApp:
        """Return FastAPI's layers inside ours."""
        settings, refused = self._settings, self._admission.observer.refused
        most, inner = settings.max_connections, super().build_middleware_stack()
        stack: ASGIApp = RequestShareMiddleware(inner, most, is_shared=self._is_shared, refused=refused)
        stack = AccessMiddleware(stack, settings, self._bound_to)
        if settings.cors_origins:
            stack = CORSMiddleware(
                stack,
                allow_origins=settings.cors_origins,
                allow_methods=_CORS_METHODS,
                allow_headers=_CORS_HEADERS,
                expose_headers=("ETag", "Retry-After", "X-Request-ID"),
            )
        stack = BodyLimitMiddleware(stack, settings.max_body_bytes, settings.body_timeout_s, self._memory_budget)
        stack = RequestMiddleware(stack, self._observers, self.is_draining)
        return EarlyRefusalMiddleware(stack, self._admission)

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
