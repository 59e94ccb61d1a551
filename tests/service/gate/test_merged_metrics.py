"""Metrics of several processes as those of one: sums that never go backwards, the formats still read them."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from ik_service.service.gate.merged_metrics import counted, merged
from ik_service.service.gate.metrics import ServiceMetrics

ACCEPTS = {"": read_text, "application/openmetrics-text; version=1.0.0": read_openmetrics}


class FakePool:
    """A queue in which so much waits."""

    def __init__(self, waiting):
        self.waiting_requests = self.waiting_problems = waiting


def process(answers, *, open_requests=0, waiting=0, is_ready=True):
    """Metrics of a process that has answered so many requests."""
    metrics = ServiceMetrics(lambda _: True)
    metrics.watch(FakePool(waiting), lambda: 3, lambda: is_ready)
    for k in range(answers):
        metrics.answered_unread(503 if k == 0 else 200, 0.001 * k)
    for _ in range(open_requests):
        metrics.began()
    metrics.refused("wait")
    return metrics


def samples(snapshot, accept=""):
    content, _ = ServiceMetrics(lambda _: True, lambda: snapshot).render(accept)
    families = list(ACCEPTS[accept](content.decode()))
    assert len({family.name for family in families}) == len(families)
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


@pytest.mark.parametrize("accept", ACCEPTS)
def test_counts_are_summed_and_states_are_not(accept):
    snapshots = [
        process(5, open_requests=2, waiting=7).snapshot(),
        process(3, open_requests=1, is_ready=False).snapshot(),
        process(1, waiting=4).snapshot(),
    ]
    found = samples(merged(snapshots), accept)
    labels = [("method", "POST"), ("route", "/v1/robots/{robot}/solve")]
    assert found[("ik_service_requests_total", *labels, ("status", "200"))] == 6
    assert found[("ik_service_requests_total", *labels, ("status", "503"))] == 3
    assert found[("ik_service_request_seconds_count", labels[1])] == 9
    assert found[("ik_service_request_seconds_bucket", ("le", "+Inf"), labels[1])] == 9
    assert found[("ik_service_request_seconds_bucket", ("le", "0.0001"), labels[1])] == 3
    assert found[("ik_service_refused_requests_total", ("reason", "wait"))] == 3
    assert found[("ik_service_requests_open",)] == 3
    assert found[("ik_service_queue_requests",)] == 7
    assert found[("ik_service_robots",)] == 3
    assert found[("ik_service_ready",)] == 0
    own = [samples(snapshot, accept)[("process_resident_memory_bytes",)] for snapshot in snapshots]
    assert found[("process_resident_memory_bytes",)] == sum(own) > 0


def test_one_process_alone_reads_as_before():
    metrics = process(4, open_requests=1, waiting=2)
    alone, one = metrics.snapshot(), samples(merged([metrics.snapshot()]))
    assert {name: value for name, value in samples(alone).items() if not name[0].startswith("process_")} == {
        name: value for name, value in one.items() if not name[0].startswith("process_")
    }
    assert len(one) > 30


def test_what_an_ended_process_has_counted_stays_and_its_state_does_not():
    ended, new = process(5, open_requests=2, waiting=9), process(1)
    found = samples(merged([counted(ended.snapshot()), new.snapshot()]))
    labels = [("method", "POST"), ("route", "/v1/robots/{robot}/solve")]
    assert found[("ik_service_requests_total", *labels, ("status", "200"))] == 4
    assert found[("ik_service_request_seconds_count", labels[1])] == 6
    assert found[("ik_service_requests_open",)] == 0
    assert found[("ik_service_queue_requests",)] == 0
