"""Dashboard and alerts name metrics, labels and label values that the service has; Prometheus itself reads both."""

import json
import re
import shutil
import socket
import subprocess
import sys
import typing
from pathlib import Path

import httpx2
import pytest
import yaml
from prometheus_client import values
from prometheus_client.parser import text_string_to_metric_families

from ik_service.service import create_app
from ik_service.service.gate.metrics import ServiceMetrics
from ik_service.service.queue.errors import RefusalReason
from ik_service.settings import ServiceSettings
from ik_service.solver.lm.status import STATUS_WORDS
from tests.bounded import until
from tests.cli.conftest import ServerProcess
from tests.docker.test_manifests import COMPOSE, container

MONITORING = Path(__file__).parents[2] / "docker" / "monitoring"
ALERTS, DASHBOARD = (MONITORING / name for name in ("alerts.yaml", "dashboard.json"))
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
PANELS = json.loads(DASHBOARD.read_text())["panels"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
OF_PROMETHEUS = {"up"}
TARGET_LABELS = {"job", "instance"}  # added by Prometheus
KEYWORDS = {"and", "or", "unless", "offset", "sum", "min", "max"}
KEY = "monitor-0123456789abcdef"
ROUTE = "/v1/robots/panda/solve"


def exported(monkeypatch, tmp_path, worker):
    """Labels of every sample that a process alone, or a worker, shows, by name."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setattr(values, "ValueClass", values.MutexValue if worker is None else values.MultiProcessValue())
    metrics = ServiceMetrics(lambda name: True, worker=worker)
    for metric in {*metrics.registry._names_to_collectors.values()}:
        if getattr(metric, "_labelnames", ()):
            metric.labels(*metric._labelnames)
    families = text_string_to_metric_families(metrics.render("")[0].decode())
    found: dict[str, set[str]] = {}
    for sample in (sample for family in families for sample in family.samples):
        found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.fixture(params=[None, 1], ids=["alone", "worker"])
def known(monkeypatch, tmp_path, request):
    return exported(monkeypatch, tmp_path, request.param)


def unknown_names(expression, known):
    """What an expression names and the service does not have."""
    faults, all_labels = [], TARGET_LABELS.union(*known.values())
    for name, matchers in re.findall(r"([A-Za-z_:][\w:]*)\s*\{([^}]*)\}", expression):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', "", matchers)):
            if label not in known.get(name, set()) | TARGET_LABELS:
                faults.append(f"{name}{{{label}}}")
    grouping = r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)"
    for labels in re.findall(grouping, expression):
        faults += [label.strip() for label in labels.split(",") if label.strip() not in all_labels]
    rest = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]', " ", re.sub(grouping, " ", expression))
    names = set(re.findall(r"(?<![\w.:])([A-Za-z_:][\w:]*)(?!\w*\s*\()", rest)) - KEYWORDS
    assert names, expression
    return faults + sorted(name for name in names if name not in {*known, *RECORDED, *OF_PROMETHEUS})


def test_an_expression_with_a_name_that_does_not_exist_is_found(known):
    for faulty, names in [
        ("sum(rate(ik_service_requests[5m]))", ["ik_service_requests"]),  # without _total
        ('ik_service_ready{robot="a"} == 0', ["ik_service_ready{robot}"]),
        ("sum by (link) (ik_service_robots)", ["link"]),
        ("ik_service_ready and on (job) ik_service_redy offset 1d", ["ik_service_redy"]),
        ("histogram_quantile(0.9, sum by (le) (rate(ik_service_solve_seconds[5m])))", ["ik_service_solve_seconds"]),
    ]:
        assert unknown_names(faulty, known) == names


def test_every_expression_names_what_the_service_has(known):
    for expression in (*(rule["expr"] for rule in RULES), *EXPRESSIONS):
        assert unknown_names(expression, known) == [], expression
    told = re.findall(r"\bik_service_[a-z_]+", ALERTS.read_text() + DASHBOARD.read_text())
    assert {"ik_service_ready", "ik_service_refused_requests_total"} <= set(told)
    assert set(told) - {*known, "ik_service_solved", "ik_service_key"} == set()
    variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    queries = [
        re.fullmatch(r"label_values\((\w+), (\w+)\)", one["definition"]) for one in variables if "definition" in one
    ]
    assert [query[2] for query in queries] == ["instance", "robot"]
    assert all(query[2] in known[query[1]] | TARGET_LABELS for query in queries)


def test_values_of_labels_are_those_that_the_service_counts():
    every = "\n".join([*(rule["expr"] for rule in RULES), *EXPRESSIONS])
    statuses = set(re.findall(r'problems_total\{[^}]*status="(\w+)"', every))
    assert statuses == {"converged"}
    assert statuses <= set(STATUS_WORDS)
    left_out = set(re.findall(r'route!~"([^"]*)"', every))
    routes = create_app(ServiceSettings(device="cpu", insecure=True)).openapi()["paths"]
    (pattern,) = left_out
    assert {route for route in routes if re.fullmatch(pattern, route)} == {"/health/live", "/health/ready", "/metrics"}
    text = ALERTS.read_text()
    reasons = re.findall(r"\b(wait|requests|problems|share|rate|bytes)(?=[,:])", text.partition("names the reason.")[2])
    assert len(reasons) >= 6
    assert set(reasons) <= set(typing.get_args(RefusalReason))
    assert set(re.findall(r"\b(?:memory_bytes|max_connections|solvers|request_timeout_s)\b", text)) <= {
        *ServiceSettings.model_fields
    }


def test_every_alert_says_what_happened_and_what_to_do():
    alerts = [rule for rule in RULES if "alert" in rule]
    assert len({rule["alert"] for rule in alerts}) == len(alerts) == 9
    for rule in alerts:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_the_alert_of_memory_has_the_limit_of_the_examples():
    (rule,) = (rule for rule in RULES if rule.get("alert") == "IkServiceMemory")
    assert rule["expr"].endswith("> 0.8 * 4 * 1024 ^ 3")
    assert COMPOSE["services"]["cpu"]["mem_limit"].endswith(":-4g}")
    assert container("cpu")["resources"]["limits"]["memory"] == "4Gi"


def test_panels_of_the_dashboard_do_not_overlap_and_each_has_a_text():
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    taken = set()
    for place in (panel["gridPos"] for panel in PANELS):
        cells = {(place["x"] + k, place["y"] + j) for k in range(place["w"]) for j in range(place["h"])}
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert all(panel["title"] and panel["description"] for panel in PANELS)


def test_prometheus_asks_with_a_key_the_route_and_the_rules_that_there_are():
    given = yaml.safe_load((MONITORING / "prometheus.yaml").read_text())
    assert given["rule_files"] == [ALERTS.name]
    (scraped,) = given["scrape_configs"]
    assert scraped["job_name"] == "ik-service"
    assert 'up{job="ik-service"}' in ALERTS.read_text()
    assert "metrics_path" not in scraped  # /metrics
    assert scraped["authorization"]["type"] == "Bearer"


# ---------------------------------------------------------------------- with Prometheus itself
def program(name):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed; Debian's package prometheus has it")
    return name


def promtool(*arguments):
    ran = subprocess.run(
        [program("promtool"), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def asked(expression):
    """An expression of the dashboard as Grafana sends it, for a short run."""
    for variable, value in (("$__rate_interval", "30s"), ("$instance", ".*"), ("$robot", ".*")):
        expression = expression.replace(variable, value)
    return expression


@pytest.mark.evidence
def test_promtool_takes_alerts_and_expressions_and_each_alert_fires(tmp_path):
    assert f"{len(RULES)} rules found" in promtool("check", "rules", ALERTS)
    rules = [{"record": f"panel:{number}", "expr": asked(each)} for number, each in enumerate(EXPRESSIONS)]
    written = tmp_path / "panels.yaml"
    written.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(EXPRESSIONS)} rules found" in promtool("check", "rules", written)
    cases = yaml.safe_load((Path(__file__).parent / "alerts_test.yaml").read_text())
    samples = [one for case in cases["tests"] for test in case["promql_expr_test"] for one in test["exp_samples"]]
    fired = {re.fullmatch(r'\{alertname="(\w+)"\}', one["labels"])[1] for one in samples}
    assert fired == {rule["alert"] for rule in RULES if "alert" in rule}
    shutil.copy(ALERTS, tmp_path)
    cases["rule_files"] = [str(tmp_path / ALERTS.name)]
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(cases))
    assert "SUCCESS" in promtool("test", "rules", tmp_path / "cases.yaml")
    sys.stdout.write(
        f"\npromtool: {len(RULES)} rules, {len(EXPRESSIONS)} expressions of panels, {len(fired)} alerts fire\n"
    )


@pytest.mark.evidence
def test_prometheus_has_an_answer_to_every_expression_of_the_dashboard(tmp_path):
    program("prometheus")
    server = ServerProcess("--robots", "panda", IK_SERVICE_API_KEYS=f"monitor:{KEY}", IK_SERVICE_LOG_FORMAT="json")
    try:
        server.wait_until_ready()
        given = yaml.safe_load((MONITORING / "prometheus.yaml").read_text())
        scraped = given["scrape_configs"][0]
        scraped |= {"scrape_interval": "1s", "static_configs": [{"targets": [server.url.removeprefix("http://")]}]}
        (tmp_path / "key").write_text(KEY)
        scraped["authorization"]["credentials_file"] = str(tmp_path / "key")
        shutil.copy(ALERTS, tmp_path)
        (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(given))
        promtool("check", "config", tmp_path / "prometheus.yaml")
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        prometheus = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={tmp_path}/prometheus.yaml",
                f"--storage.tsdb.path={tmp_path}/data",
                f"--web.listen-address={address}",
            ],
            stderr=subprocess.DEVNULL,
        )
        try:
            body = {"targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]]}]}

            def value(expression):
                try:
                    reply = httpx2.get(f"http://{address}/api/v1/query", params={"query": expression}, timeout=10)
                except httpx2.TransportError:
                    return None
                found = reply.json()
                assert found["status"] == "success", found
                return found["data"]["result"]

            def answered():
                headers = {"X-API-Key": KEY}
                httpx2.post(f"{server.url}{ROUTE}", json=body, headers=headers, timeout=60)
                late = httpx2.post(
                    f"{server.url}{ROUTE}", json=body, headers={**headers, "Prefer": "wait=0"}, timeout=60
                )
                assert late.status_code == 504
                left = {each for each in EXPRESSIONS if not value(asked(each))}
                return not {each for each in left if "dropped_requests" not in each}

            until(answered, 120.0)
            (up,) = value('up{job="ik-service"}')
            assert up["value"][1] == "1"
            rules = httpx2.get(f"http://{address}/api/v1/rules", timeout=10).json()["data"]["groups"][0]["rules"]
            assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
            sys.stdout.write(
                f"\nPrometheus: {len(EXPRESSIONS)} expressions of the dashboard have values, but for dropped requests\n"
            )
        finally:
            prometheus.terminate()
            prometheus.wait(30)
        assert server.end() == 0
    finally:
        server.process.kill()
        server.process.wait()
        server.process.stderr.close()
