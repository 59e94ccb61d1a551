"""A client of the service: needs httpx2, websockets, msgpack and NumPy, but neither Warp nor the solver.

client.py: `Client` and `AsyncClient`; stream.py: web sockets; blocking.py: blocking methods from coroutine functions
messages.py, motion_result.py: targets, results, request bodies and replies; errors.py: error replies
"""

from ik_service.extras import needs

with needs("client", "The client"):
    from ik_service.client.client import AsyncClient, Client
    from ik_service.client.errors import ClientError, ServiceError, UnreachableError
    from ik_service.client.messages import ForwardResult, SolveAnyResult, SolveResult, SolveTarget, StreamTarget
    from ik_service.client.motion_result import MotionResult
    from ik_service.client.stream import AsyncStream, Stream, StreamAnswer, StreamConfigured

__all__ = [
    "AsyncClient",
    "AsyncStream",
    "Client",
    "ClientError",
    "ForwardResult",
    "MotionResult",
    "ServiceError",
    "SolveAnyResult",
    "SolveResult",
    "SolveTarget",
    "Stream",
    "StreamAnswer",
    "StreamConfigured",
    "StreamTarget",
    "UnreachableError",
]
