"""Metrics of several processes as those of one service.

Counters and histograms are summed, those of processes that have ended included, so that they do not go backwards.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

_SUMMED = frozenset(
    ("ik_service_requests_open", "process_resident_memory_bytes", "process_virtual_memory_bytes", "process_open_fds")
)
_LEAST = frozenset(("ik_service_ready", "process_start_time_seconds", "process_max_fds"))
_COUNTED = frozenset(("counter", "histogram"))

Snapshot = Sequence[Metric]
"""The metrics of a process at one time."""


class MergedMetrics(Collector):
    """Metrics that have been collected.

    Args:
        families: The metrics.
    """

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        """Give the metrics."""
        yield from self._families


def counted(snapshot: Snapshot) -> Snapshot:
    """Return what stays of a process that has ended: what it has counted."""
    return [family for family in snapshot if family.type in _COUNTED]


def merged(snapshots: Iterable[Snapshot]) -> Snapshot:
    """Return the metrics of several processes as those of one: sums, or else the largest value or the least one."""
    families: dict[str, Metric] = {}
    samples: dict[str, dict[tuple[str, frozenset[tuple[str, str]]], Sample]] = {}
    for snapshot in snapshots:
        for family in snapshot:
            if family.name not in families:
                families[family.name] = Metric(family.name, family.documentation, family.type, family.unit)
            own = samples.setdefault(family.name, {})
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                if key in own:
                    value = _rule(family, sample.name)((own[key].value, sample.value))
                    own[key] = own[key]._replace(value=value)
                else:
                    own[key] = sample
    for name, family in families.items():
        family.samples = _together(list(samples[name].values()))
    return list(families.values())


def _rule(family: Metric, sample_name: str) -> Callable[[tuple[float, float]], float]:
    if family.name in _LEAST or sample_name.endswith("_created"):
        return min
    return sum if family.type in _COUNTED or family.name in _SUMMED else max


def _together(samples: list[Sample]) -> list[Sample]:
    """Samples in the order of their first ones, those of equal labels one after the other, as the formats want it."""
    groups: dict[frozenset[tuple[str, str]], list[Sample]] = {}
    for sample in samples:
        labels = frozenset((name, value) for name, value in sample.labels.items() if name != "le")
        groups.setdefault(labels, []).append(sample)
    return [sample for group in groups.values() for sample in group]
