"""A client of the service: needs httpx2, websockets, msgpack and NumPy, and neither Warp nor the solver.

client.py, async_client.py: one connection pool each, all else in common
requests.py: calls to requests -> retries.py: how often, how long to wait -> replies.py: replies to results and errors
stream.py: one web socket each, all else in stream_messages.py
"""

from ik_service.extras import how_to_install

try:
    import httpx2  # noqa: F401  # only whether it is there
except ModuleNotFoundError as error:
    message = f"The client needs httpx2. {how_to_install('client')}"
    raise ModuleNotFoundError(message, name=error.name) from error

from ik_service.client.async_client import AsyncClient
from ik_service.client.client import Client
from ik_service.client.errors import ClientError, ServiceError, UnreachableError
from ik_service.client.messages.requests import SolveTarget
from ik_service.client.messages.results import ForwardResult, SolveResult
from ik_service.client.messages.stream_messages import StreamAnswer, StreamConfigured, StreamTarget
from ik_service.client.stream import AsyncStream, Stream

__all__ = [
    "AsyncClient",
    "AsyncStream",
    "Client",
    "ClientError",
    "ForwardResult",
    "ServiceError",
    "SolveResult",
    "SolveTarget",
    "Stream",
    "StreamAnswer",
    "StreamConfigured",
    "StreamTarget",
    "UnreachableError",
]
