"""`ik-service serve`: where it listens, what it prints, and that the printed line works."""

import asyncio
import json
import re
import signal
import socket
import urllib.request

import pytest

from ik_service.cli.announcement import curl_line
from ik_service.cli.service_server import log_failure

CURL = re.compile(r"curl -s (\S+) -H 'Content-Type: application/json' -d '(.*)'")


def test_serve_refuses_an_open_host_before_it_loads_anything(run):
    assert "--insecure" in run("serve", "--host", "0.0.0.0", code=2).stderr


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "127.0.0.1:80"), ("0.0.0.0", "127.0.0.1:80"), ("::", "[::1]:80"), ("10.0.0.1", "10.0.0.1:80")],
)
def test_the_printed_line_names_an_address_that_can_be_reached(host, address):
    assert CURL.fullmatch(curl_line(host, 80, "iiwa14", {}))[1] == f"http://{address}/v1/robots/iiwa14/solve"


def test_a_port_in_use_is_said_in_one_line(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--port", port, "--device", "cpu", code=1)
    assert f"Cannot listen on 127.0.0.1:{port}" in result.stderr


@pytest.mark.evidence_cases("options2-cuda:77")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--robots", ","], "setting robots (IK_SERVICE_ROBOTS) names none"),
        (["--device", "cuda:77"], "cuda:77"),
        (["--device", "cuda:77", "--workers", "2"], "cuda:77"),
    ],
)
def test_what_is_wrong_at_the_start_is_said_in_one_line(run, options, said):
    result = run("serve", "--port", "0", "--device", "cpu", *options, code=2)
    assert said in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.evidence_cases("for people")
@pytest.mark.parametrize("options", [[], ["--log-format", "console"]], ids=["in a log", "for people"])
def test_the_printed_line_is_for_a_robot_that_is_served_and_interrupting_ends_it(serve, options):
    server = serve("--robots", "ur5e,iiwa14", *options)
    found = next(match for line in server.log if (match := CURL.search(line.replace('\\"', '"'))))
    assert (found[0] in server.log) == bool(options)  # for people it is a line of its own
    request = urllib.request.Request(found[1], found[2].encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        answer = json.load(reply)
    assert answer["robot"] in ("ur5e", "iiwa14")
    assert answer["success"] == [True]
    assert server.end(signal.SIGINT) in (0, -signal.SIGINT, 130)
    assert "Traceback" not in "\n".join(server.log)
    said = [json.loads(line) for line in server.log if line and not options and not line.startswith("Warp ")]
    assert all(line["timestamp"].endswith("Z") and line["level"] for line in said)


def test_an_announcement_that_fails_is_logged(caplog):
    async def announce():
        raise ValueError("no example")

    async def announced():
        task = asyncio.create_task(announce())
        task.add_done_callback(log_failure)
        await asyncio.wait([task])
        await asyncio.sleep(0)  # callbacks run in the next turn of the loop

    asyncio.run(announced())
    assert "no example" in caplog.text
