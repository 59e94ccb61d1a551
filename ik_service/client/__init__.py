"""A client of the service: needs httpx2, websockets, msgpack and NumPy, and neither Warp nor the solver.

client.py, async_client.py: a connection pool each; client_core.py: their methods, written once as generators
stream.py: a web socket each; stream_core.py: the same for streams
messages/: what is sent and received; retries.py: whether to send again, and when
"""

from ik_service.extras import needs

with needs("client", "The client"):
    from ik_service.client.async_client import AsyncClient
    from ik_service.client.client import Client
    from ik_service.client.errors import ClientError, ServiceError, UnreachableError
    from ik_service.client.requests import SolveTarget
    from ik_service.client.results import ForwardResult, SolveResult
    from ik_service.client.stream import AsyncStream, Stream
    from ik_service.client.stream_messages import StreamAnswer, StreamConfigured, StreamTarget

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
