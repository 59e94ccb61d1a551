"""A Prometheus histogram that counts many equal observations at once, unlike that of the client library."""

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry


class WeightedHistogram(Collector):
    """Counts of values by bucket, with one label.

    Args:
        name: Name of the metric.
        documentation: What is counted.
        label: Name of its label.
        bounds: Upper bounds of the buckets, increasing; a last one without a bound is added.
        registry: Where it is read from.
    """

    def __init__(
        self, name: str, documentation: str, label: str, bounds: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._name, self._documentation, self._label = name, documentation, label
        self._bounds = tuple(bounds)
        self._lock = threading.Lock()
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        registry.register(self)

    def observe(self, label: str, value: float, count: int) -> None:
        """Count a value several times."""
        with self._lock:
            if label not in self._counts:
                self._counts[label], self._sums[label] = [0] * (len(self._bounds) + 1), 0.0
            self._counts[label][bisect_left(self._bounds, value)] += count
            self._sums[label] += count * value

    def remove(self, label: str) -> None:
        """Forget what was counted under a label."""
        with self._lock:
            self._counts.pop(label, None)
            self._sums.pop(label, None)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Give the counts."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=[self._label])
        with self._lock:
            for label, counts in self._counts.items():
                total, buckets = 0, []
                for bound, count in zip((*map(str, self._bounds), "+Inf"), counts, strict=True):
                    total += count
                    buckets.append((bound, float(total)))
                family.add_metric([label], buckets, self._sums[label])
        yield family
