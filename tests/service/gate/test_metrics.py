"""What Prometheus reads is what happened, under bounded labels, for each application apart."""

from types import SimpleNamespace

import numpy as np
import pytest
from fastapi.testclient import TestClient
from prometheus_client import values
from prometheus_client.multiprocess import mark_process_dead
from prometheus_client.parser import text_string_to_metric_families

from ik_service import IKSolver, IKStatus, load_robot
from ik_service.robots import builtin_urdf
from ik_service.service import create_app
from ik_service.service.gate import metrics as metrics_module
from ik_service.service.gate.metrics import ServiceMetrics
from ik_service.service.queue.solve_request import BatchShare, QueuedRequest, SolveRequest
from ik_service.settings import ServiceSettings
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.targets import Target
from tests.bounded import until
from tests.service.conftest import service_of

PATIENCE_S = 60.0
KEY = "0123456789abcdef"
POSITIONS = [[0.4, 0.1, 0.5], [0.5, -0.2, 0.4], [9.0, 9.0, 9.0]]
SOLVE = {"targets": [{"link": "panda_hand", "positions": POSITIONS}]}


def read(text):
    families = text_string_to_metric_families(text)
    return {(s.name, *sorted(s.labels.items())): s.value for family in families for s in family.samples}


def samples(client):
    reply = client.get("/metrics")
    assert reply.status_code == 200, reply.text
    return read(reply.text)


def samples_after(client, batches, robot="panda"):
    """The samples once a batch has been counted, which may be after its answer."""
    until(lambda: of_robot(samples(client), "ik_service_batch_problems_count", robot) >= batches, PATIENCE_S)
    return samples(client)


def of_robot(found, name, robot="panda", **labels):
    return found.get((name, *sorted({"robot": robot, **labels}.items())), 0.0)


@pytest.fixture
def own_client(tmp_path):
    settings = {"api_keys": f"lab:{KEY}", "catalog_dir": tmp_path, "uploads_enabled": True}
    with service_of(robots="panda", **settings) as client:
        client.headers["X-API-Key"] = KEY
        samples_after(client, 1)
        yield client


def test_a_solve_is_counted_by_robot_and_status(own_client):
    before = samples(own_client)
    assert own_client.post("/v1/robots/panda/solve", json=SOLVE).json()["success"] == [True, True, False]
    after = samples_after(own_client, 2)

    def grown(name, **labels):
        return of_robot(after, name, **labels) - of_robot(before, name, **labels)

    assert grown("ik_service_problems_total", status="converged") == 2
    statuses = [key for key in after if key[0] == "ik_service_problems_total"]
    assert len(statuses) == len(IKStatus)
    assert sum(after[key] - before[key] for key in statuses) == 3
    for name in ("batch_problems", "queue_wait_seconds", "solve_seconds"):
        assert grown(f"ik_service_{name}_count") == 1, name
        assert grown(f"ik_service_{name}_sum") > 0, name
    assert grown("ik_service_batch_problems_sum") == 3
    assert grown("ik_service_problem_islands_count") == 3
    assert grown("ik_service_problem_islands_sum") == 3
    assert grown("ik_service_problem_islands_bucket", le="0.0") == 0
    assert grown("ik_service_problem_islands_bucket", le="1.0") == 3
    route = "/v1/robots/{robot}/solve"
    counted = ("ik_service_requests_total", ("method", "POST"), ("route", route), ("status", "200"))
    assert after[counted] == 1
    assert after[("ik_service_request_seconds_count", ("route", route))] == 1
    assert after[("ik_service_ready",)] == 1
    assert after[("ik_service_queue_requests",)] == after[("ik_service_queue_problems",)] == 0
    assert after[("ik_service_requests_open",)] == 1  # the question itself


def test_refused_requests_are_counted_by_reason(own_client):
    late = own_client.post("/v1/robots/panda/solve", json=SOLVE, headers={"Prefer": "wait=0"})
    assert (late.status_code, late.json()["code"]) == (504, "deadline_passed")
    service = own_client.app.state.service
    service.metrics.refused("wait")  # as the pool and the connections do
    service.metrics.open_requests += 1
    service.metrics.answered({"method": "POST"}, 503, 0.0, is_unread=True)
    found = samples(own_client)
    refused = "ik_service_refused_requests_total"
    assert found[(refused, ("reason", "deadline"))] == found[(refused, ("reason", "wait"))] == 1
    for status in ("503", "504"):
        labels = (("method", "POST"), ("route", "/v1/robots/{robot}/solve"), ("status", status))
        assert found[("ik_service_requests_total", *labels)] == 1


def test_labels_do_not_grow_with_what_callers_make_up(own_client):
    def series():
        return {key for key in samples(own_client) if key[0].startswith("ik_service")}

    own_client.get("/v1/robots/none")
    own_client.get("/none")
    own_client.request("BREW", "/none")
    before = series()
    for k in range(20):
        own_client.get(f"/v1/robots/none_{k}")
        own_client.get(f"/none/{k}")
        own_client.request(f"BREW{k}", "/none")
        own_client.post("/v1/robots/panda/solve", json={"targets": [{"link": f"link_{k}"}]})
    assert {key[0] for key in series() - before} <= {
        f"ik_service_request{name}" for name in ("s_total", "s_created", "_seconds_bucket", "_seconds_count")
    } | {"ik_service_request_seconds_sum", "ik_service_request_seconds_created"}
    routes = {label[1] for key in series() for label in key[1:] if label[0] == "route"}
    assert all("none" not in route.strip("()") or route == "(none)" for route in routes)
    methods = {label[1] for key in series() for label in key[1:] if label[0] == "method"}
    assert methods == {"GET", "POST", "(other)"}


def test_robots_of_equal_urdfs_are_counted_each_under_its_own_name_until_they_are_deleted(own_client):
    urdf = {"content": builtin_urdf("ur5e"), "headers": {"Content-Type": "text/xml"}}
    for name in ("twin_a", "twin_b"):
        assert own_client.put(f"/v1/robots/{name}", **urdf).status_code == 201
    far = {"targets": [{"link": "tool0", "positions": [[9.0, 9.0, 9.0]] * 3}], "options": {"seeds": 1}}
    for _ in range(2):
        assert own_client.post("/v1/robots/twin_b/solve", json=far).status_code == 200
    found = samples_after(own_client, 2, "twin_b")
    assert not [key for key in found if ("robot", "twin_a") in key]
    assert sum(found[key] for key in found if key[0] == "ik_service_problems_total" and ("robot", "twin_b") in key) == 6
    assert own_client.delete("/v1/robots/twin_a").status_code == 204
    assert own_client.post("/v1/robots/twin_b/solve", json=far).status_code == 200
    found = samples_after(own_client, 3, "twin_b")
    assert of_robot(found, "ik_service_problem_islands_count", "twin_b") == 9
    assert own_client.delete("/v1/robots/twin_b").status_code == 204
    assert not [key for key in samples(own_client) if ("robot", "twin_b") in key]


def test_robots_of_equal_urdfs_share_batches_and_are_counted_apart():
    panda = load_robot("panda")
    poses = panda.forward_kinematics(panda.mid_joint_q, links=["panda_hand"]).positions[0]
    result = IKSolver(panda, ["panda_hand"], device="cpu").solve(np.concatenate([poses, poses, [[9.0, 9.0, 9.0]]]))
    metrics = ServiceMetrics(lambda name: name != "gone")
    works = [
        QueuedRequest(panda, SolveRequest((Target("panda_hand"),), Batch.of([poses])), 0.0, 1.0, label=name)
        for name in ("a", "b", "gone")
    ]
    metrics.solved(panda, [BatchShare(work, slice(0, 1), 1) for work in works], result, 0.5)
    metrics.compiled(works[1], 2.0)

    def value(name, robot, **labels):
        return metrics.registry.get_sample_value(f"ik_service_{name}", {"robot": robot, **labels})

    for robot in ("a", "b", "(removed)"):
        assert value("batch_problems_sum", robot) == value("queue_wait_seconds_count", robot) == 1
        assert value("solve_seconds_sum", robot) == 0.5
    assert value("problems_total", "a", status="converged") == value("problems_total", "b", status="converged") == 1
    assert value("problems_total", "(removed)", status="converged") == 0
    assert [value("compile_seconds_count", robot) for robot in ("a", "b")] == [None, 1]


def test_metrics_are_those_of_one_application_in_the_form_that_the_scraper_asks_for(own_client, client):
    own_client.get("/v1/robots")
    name = "ik_service_request_seconds_count"
    before = client.app.state.service.metrics.render("")[0].count(name.encode())
    assert samples(own_client)[(name, ("route", "/v1/robots"))] == 1
    assert client.app.state.service.metrics.render("")[0].count(name.encode()) == before
    assert own_client.get("/metrics").headers["content-type"].startswith("text/plain")
    reply = own_client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert reply.headers["content-type"].startswith("application/openmetrics-text")
    assert reply.text.endswith("# EOF\n")
    assert own_client.get("/metrics", headers={"X-API-Key": "wrong"}).status_code == 401


@pytest.mark.parametrize(("bound_to", "status"), [("127.0.0.1", 200), ("0.0.0.0", 403), (None, 403)])
def test_without_keys_metrics_are_open_on_loopback_only(bound_to, status):
    settings, robots = ServiceSettings(device="cpu", insecure=True), {"panda": load_robot("panda")}
    with TestClient(create_app(settings, robots=robots, bound_to=bound_to, compile_apart=False)) as client:
        reply = client.get("/metrics")
        assert reply.status_code == status
        assert status == 200 or reply.json()["code"] == "metrics_closed"


@pytest.fixture
def worker(monkeypatch, tmp_path):
    """Makes the metrics of a worker of a number, as its process does."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))

    def start(number):
        monkeypatch.setattr(values, "ValueClass", values.MultiProcessValue(lambda: number))
        metrics = ServiceMetrics(lambda name: True, worker=number)
        pool = SimpleNamespace(waiting_requests=number, waiting_problems=10, compiling_kinds=number)
        metrics.watch(pool, lambda: 7, lambda: number != 2)
        return metrics

    return start


def shown(metrics):
    """What a worker shows."""
    return read(metrics.render("")[0].decode())


def test_each_worker_shows_the_metrics_of_all(worker, tmp_path):
    one, two = worker(1), worker(2)
    for metrics, count in ((one, 3), (two, 4)):
        for _ in range(count):
            metrics.open_requests += 1
            metrics.answered({"method": "GET"}, 200, 0.01)
    two.open_requests += 1
    two.refresh()
    requests = ("ik_service_requests_total", ("method", "GET"), ("route", "(none)"), ("status", "200"))
    found = shown(one)
    two.refresh()
    assert shown(two).keys() == found.keys()
    assert found[requests] == found["ik_service_request_seconds_count", ("route", "(none)")] == 7
    assert (found[("ik_service_requests_open",)], found[("ik_service_queue_requests",)]) == (1, 3)
    assert (found[("ik_service_robots",)], found[("ik_service_ready",)]) == (7, 0)
    assert found[("process_cpu_seconds_total",)] > 0
    assert found[("ik_service_compiling_kinds",)] == 3
    assert [key for key in found if key[0] == "ik_service_build_info"] != []

    mark_process_dead(2, str(tmp_path))  # and started again: what it had counted stays, what it had open does not
    found = shown(one)
    assert (found[requests], found[("ik_service_requests_open",)], found[("ik_service_ready",)]) == (7, 0, 1)
    again = worker(2)
    again.answered({"method": "GET"}, 200, 0.01)
    found = shown(one)
    assert found[requests] == 8
    starts = [found["ik_service_worker_starts_total", ("worker", str(number))] for number in (1, 2)]
    assert starts == [1, 2]  # a start again is told from the first


def test_labels_of_robots_that_come_and_go_are_bounded_in_the_files_of_workers(worker, monkeypatch):
    monkeypatch.setattr(metrics_module, "LABELS_MOST", 2)
    metrics, panda = worker(1), load_robot("panda")
    for name in ("a", "b", "c", "d", "a"):
        request = SolveRequest((Target("panda_hand"),), Batch.of([[[0.4, 0.1, 0.5]]]))
        metrics.compiled(QueuedRequest(panda, request, 0.0, 1.0, label=name), 2.0)
        metrics.forget(name)
    name = "ik_service_compile_seconds_count"
    counted = {key[1][1]: value for key, value in shown(metrics).items() if key[0] == name}
    assert counted == {"a": 2, "b": 1, "(other)": 2}
