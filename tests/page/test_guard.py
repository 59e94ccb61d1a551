"""The guard of the page's server: other websites are refused, and uploads are bounded."""

import contextlib
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest
import viser
from viser import _messages
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from ik_service.page import LocalSolving, Page, words
from ik_service.page.page import UPLOAD_MOST, UPLOADS_MOST, bound_uploads, is_admitted
from tests.page.guests import scene_server

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
