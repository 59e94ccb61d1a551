"""A client of the service: needs httpx2, msgpack and NumPy, and neither Warp nor the solver.

client.py, async_client.py: one connection pool each, all else in common
requests.py: calls to requests -> retries.py: how often, how long to wait -> replies.py: replies to results and errors
"""

from ik_service.client.async_client import AsyncClient
from ik_service.client.client import Client
from ik_service.client.errors import ClientError, ServiceError, UnreachableError
from ik_service.client.replies import ForwardResult, SolveResult
from ik_service.client.requests import SolveTarget

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "ForwardResult",
    "ServiceError",
    "SolveResult",
    "SolveTarget",
    "UnreachableError",
]
