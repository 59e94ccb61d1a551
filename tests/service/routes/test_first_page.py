"""The first page of the service: HTML for browsers, without a script, and JSON for everybody else."""

import re
from html import unescape
from html.parser import HTMLParser

import pytest

from ik_service import load_robot
from ik_service.service.catalog import entries
from ik_service.settings import ServiceSettings
from tests.service.conftest import service_of
from tests.service.messages import JSON, answered

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
KEY = "0123456789abcdef"


def served(**settings):
    return service_of({name: load_robot(name) for name in ("panda", "ur5e")}, **settings)


def page_of(client, **headers):
    return client.get("/", headers={"Accept": BROWSER, **headers})


@pytest.fixture(scope="module")
def client():
    with served(page_url="http://127.0.0.1:8080/?a=1&b=2") as client:
        yield client


class Elements(HTMLParser):
    """Collects the elements of a page."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/json, text/html;q=0.9", ""])
def test_who_does_not_ask_for_html_gets_the_index(client, accept):
    reply = client.get("/", headers={"Accept": accept})
    assert (reply.headers["content-type"], reply.json()["robots"]) == (JSON, "/v1/robots")
    assert reply.headers["vary"] == "Accept"


def test_a_browser_gets_a_page(client):
    reply = page_of(client)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert reply.headers["vary"] == "Accept"
    assert client.head("/", headers={"Accept": BROWSER}).headers["content-type"] == "text/html; charset=utf-8"
    page = Elements(reply.text)
    assert page.open == []
    tags = {tag for tag, _ in page.found}
    assert "script" not in tags
    assert {"title", "h1", "main", "table"} <= tags
    assert dict(page.found[0][1]) == {"lang": "en"}
    links = [attributes["href"] for tag, attributes in page.found if tag == "a"]
    assert (links[0], len(links)) == ("http://127.0.0.1:8080/?a=1&b=2", 4)
    (frame,) = [attributes for tag, attributes in page.found if tag == "iframe"]
    assert frame["src"] == links[0]
    assert frame["title"]
    assert reply.headers["content-security-policy"].endswith("; frame-src http://127.0.0.1:8080")
    for address in links[1:]:
        assert client.get(address).status_code == 200, address
    for robot in ("panda", "ur5e"):
        assert f"<td>{robot}</td>" in reply.text


def test_the_request_on_the_page_works(client):
    text = page_of(client).text
    path, body = re.search(r"http://testserver(/v1/robots/panda/solve) .*-d &#x27;(.*)&#x27;</pre>", text).groups()
    assert answered(client, path, unescape(body).encode())["success"] == [True]
    assert "<b>" not in page_of(client, Host="a<b>c").text  # a name in the request puts no element on the page


def test_without_a_live_page_it_says_how_to_start_one_and_names_robots_to_those_who_have_a_key():
    with served(api_keys={"lab": KEY}) as client:
        reply = page_of(client)
    assert "ik-service page --url http://testserver" in reply.text
    assert "<iframe" not in reply.text
    assert "frame-src" not in reply.headers["content-security-policy"]
    assert "X-API-Key" in reply.text
    assert "ur5e" not in reply.text
    assert KEY not in reply.text


def test_links_of_robots_are_looked_for_once(monkeypatch):
    asked = []
    monkeypatch.setattr(entries, "leaf_links", lambda model: asked.append(model) or ["an end"])
    with served() as client:
        for _ in range(3):
            assert page_of(client).text.count("<td>an end</td>") == 2
    assert len(asked) == 2


@pytest.mark.parametrize("address", ["javascript:alert(1)", "127.0.0.1:8080", 'http://a/"onclick="b'])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(ValueError, match="page_url"):
        ServiceSettings(page_url=address)
