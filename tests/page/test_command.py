"""`ik-service page`: address, end and refusals; other websites are refused, uploads are bounded."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
import viser
from typer.testing import CliRunner
from viser import _messages
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from ik_service.cli.app import app
from ik_service.page import LocalSolving, Page, words
from ik_service.page.page import UPLOAD_MOST, UPLOADS_MOST, bound_uploads, is_admitted
from tests.bounded import until
from tests.page.guests import scene_server

PROGRAM = "from ik_service.cli import main; main()"
END_S = 120.0  # the first solve on a machine compiles kernels, and the page ends after it


def run(*arguments, code):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.evidence_cases("2")
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_interrupted(signal_number):
    command = [sys.executable, "-c", PROGRAM, "page", "ur5e", "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = process.stderr.readline()
            url = re.search(r"The page is at (http://127\.0\.0\.1:\d+)", said)[1]
            with urllib.request.urlopen(url, timeout=60) as reply:
                assert b"<html" in reply.read()
            process.send_signal(signal_number)
            printed, said = process.communicate(timeout=END_S)
        finally:
            process.kill()
    assert (process.returncode, printed, said) == (0, "", "")


def test_it_runs_with_the_packages_of_the_lock():
    lock = Path(__file__).parents[2] / "requirements-page.lock"
    pins = dict(re.findall(r"^([^\s=]+)==(\S+)", lock.read_text(), flags=re.MULTILINE))
    names = ("viser", "websockets", "rich", "trimesh", "msgspec")
    assert {name: version(name) for name in names} == {name: pins[name] for name in names}


def test_a_service_starts_a_page_beside_it_and_says_so_once_it_is_there(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-c", PROGRAM, "serve", "--port", "0", "--page-port", str(port), "--device", "cpu"]
    command += ["--log-format", "console"]
    said = tmp_path / "said"
    quiet = {**os.environ, "IK_SERVICE_WARM_UP_ROBOTS": ","}  # nothing is compiled in the background
    with said.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file, env=quiet) as process:
        try:

            def is_there():
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=60) as reply:
                        return b"<html" in reply.read()
                except OSError:
                    return False

            until(lambda: "Open http://127.0.0.1:" in said.read_text(), END_S)
            assert is_there()
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_S) == 0
        finally:
            process.kill()
    until(lambda: not is_there())


def test_a_service_with_keys_starts_no_page(tmp_path):
    (tmp_path / "keys").write_text("lab:0123456789abcdef\n")
    keys = "--api-keys-file", tmp_path / "keys"
    said = run("serve", "--port", "0", "--page-port", "8099", *keys, "--device", "cpu", code=1).stderr
    assert "ik-service page --url" in said


def test_a_port_in_use_is_said_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("page", "--port", port, "--device", "cpu", code=1)
    assert f"Cannot listen on 127.0.0.1:{port}" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_robot_or_service_that_is_not_there_is_said(service_url):
    assert "nobody" in run("page", "nobody", "--port", "0", code=2).stderr
    assert "does not answer" in run("page", "--url", "http://127.0.0.1:9", "--port", "0", code=1).stderr
    assert "no robot 'nobody'" in run("page", "nobody", "--url", service_url, "--port", "0", code=1).stderr


# ---------------------------------------------------------------------- other websites and uploads
HOST = "127.0.0.1:8080"
OWN, FOREIGN = f"http://{HOST}", "https://example.org"
CASES = (
    ("127.0.0.1", [HOST], [], True),  # no browser
    ("127.0.0.1", [HOST], [OWN], True),
    ("127.0.0.1", ["localhost:9000"], ["http://localhost:9000"], True),  # forwarded
    ("::1", ["[::1]:8080"], ["http://[::1]:8080"], True),
    ("127.0.0.1", [HOST], [FOREIGN], False),
    ("127.0.0.1", [HOST], ["http://127.0.0.1:8000"], False),  # another port is another website
    ("127.0.0.1", [HOST], ["null"], False),
    ("127.0.0.1", ["example.org:8080"], ["http://example.org:8080"], False),  # a name that leads here
    ("127.0.0.1", ["[::1]evil.example"], [], False),
    ("127.0.0.1", ["127.0.0.1.example.org"], [], False),
    ("127.0.0.1", ["[::1"], [], False),
    ("127.0.0.1", [], [], False),
    ("127.0.0.1", [HOST, HOST], [], False),
    ("127.0.0.1", [HOST], [OWN, OWN], False),
    ("0.0.0.0", ["arm.example:8080"], ["http://arm.example:8080"], True),
    ("0.0.0.0", ["arm.example:8080"], [FOREIGN], False),
)


@pytest.mark.parametrize(("bound_to", "hosts", "origins", "admitted"), CASES)
def test_only_the_page_itself_is_admitted(bound_to, hosts, origins, admitted):
    assert is_admitted(bound_to, hosts, origins) is admitted


def test_the_server_refuses_other_websites():
    with Page(LocalSolving("cpu"), "panda") as page:
        address, version = page.url.replace("http", "ws", 1), f"viser-v{viser.__version__}"
        with connect(address, origin=page.url, subprotocols=[version]) as socket:
            assert socket.recv(timeout=30.0)
        for given in ({"origin": FOREIGN}, {"additional_headers": {"Host": "example.org"}}):
            with pytest.raises(InvalidStatus) as refused, connect(address, subprotocols=[version], **given):
                pass
            assert refused.value.response.status_code == 403


def test_a_browser_tells_whether_its_system_is_dark():
    told = []
    with Page(LocalSolving("cpu"), "panda") as page:

        def tell(path, origin=None):
            request = urllib.request.Request(f"{page.url}/scheme/{path}", headers={"Origin": origin or page.url})
            with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=30.0) as reply:
                assert reply.status == 204

        tell("7/dark")  # nobody has this number
        page.visitors[7] = SimpleNamespace(enqueue=lambda *action: told.append(action), leave=list)
        tell("7/light", FOREIGN)
        assert told == []
        tell("7/dark")
        tell("7/light")
        assert told == [("scheme", True), ("scheme", False)]
    assert "srcset='scheme/7/dark'" in words.page_html(7)


def hear(server, message):
    for handler in list(server.gui._websock_interface._incoming_handlers[type(message)]):
        handler(0, message)


def test_uploads_that_are_too_many_or_too_large_are_dropped():
    with scene_server() as server:
        bound_uploads(SimpleNamespace(gui=server.gui))
        button = server.gui.add_upload_button("Show")
        uploads = server.gui._current_file_upload_states
        for number in range(UPLOADS_MOST + 3):
            hear(server, _start(button, number, 10))
        assert list(uploads) == [f"file {number}" for number in range(UPLOADS_MOST)]
        hear(server, _part("file 0", 0, b"x" * (UPLOAD_MOST - 1)))
        assert "file 0" in uploads
        hear(server, _part("file 0", 1, b"xx"))  # more than it has said
        assert list(uploads) == ["file 1"]
        uploads.clear()
        hear(server, _start(button, 9, UPLOAD_MOST + 1))
        assert not uploads


def _start(button, number, size):
    return _messages.FileTransferStartUpload(
        source_component_uuid=button._impl.uuid,
        transfer_uuid=f"file {number}",
        filename="arm.urdf",
        mime_type="",
        part_count=9,
        size_bytes=size,
    )


def _part(name, index, content):
    return _messages.FileTransferPart(source_component_uuid=None, transfer_uuid=name, part_index=index, content=content)
