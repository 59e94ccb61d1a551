"""What an application needs as one of several fronts of a service: processes that take requests for one solver."""

from collections.abc import Callable
from dataclasses import dataclass

from ik_service.service.gate.merged_metrics import Snapshot
from ik_service.service.remote.remote_pool import RemotePool


@dataclass(frozen=True)
class Front:
    """One of several fronts.

    Attributes:
        role: Its name in logs.
        pool: Leads to the solver.
        gather: Returns the metrics of all processes of the service; it may block.
    """

    role: str
    pool: RemotePool
    gather: Callable[[], Snapshot]
