"""The HTTP surface: a FastAPI application over the solver."""

from ik_service.service.app import create_app

__all__ = ["create_app"]
