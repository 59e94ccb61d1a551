"""The first page of the service: HTML for browsers, JSON for everybody else."""

import base64
import hashlib
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.service.catalog import entries
from ik_service.service.routes import docs_page
from ik_service.service.routes.speed import BATCH, reachable
from ik_service.settings import ServiceSettings
from tests.bounded import until
from tests.service.conftest import service_of
from tests.service.messages import JSON, answered

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
KEY = "0123456789abcdef"
PAGE_BYTES = 150_000  # of the page and its pictures


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
        if tag not in ("meta", "link", "img", "source"):
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
    assert {"title", "h1", "main", "dl", "ul"} <= tags
    (script,) = re.findall("<script>(.*?)</script>", reply.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = reply.headers["content-security-policy"].split("; ")
    assert policy[0] == "default-src 'none'"
    assert [rule for rule in policy if rule.startswith("script-src")] == [f"script-src 'sha256-{digest}'"]
    assert dict(page.found[0][1]) == {"lang": "en"}
    links = [attributes["href"] for tag, attributes in page.found if tag == "a"]
    assert (links[0], len(links)) == ("http://127.0.0.1:8080/?a=1&b=2", 4)
    pictures = [attributes["src"] for tag, attributes in page.found if tag == "img"]
    pictures += [attributes["srcset"] for tag, attributes in page.found if tag == "source"]
    still = [picture for picture in pictures if picture.startswith("data:image/webp;base64,")]
    assert len(still) == 2  # light and dark
    cards = [picture for picture in pictures if picture not in still]
    assert cards == ["/docs/pictures/panda.webp", "/docs/pictures/ur5e.webp"]
    sizes = [len(client.get(path).content) for path in cards]
    assert min(sizes) > 1000
    every = sum(file.stat().st_size for file in Path(docs_page.__file__).parent.glob("first_page/pictures/*"))
    assert len(reply.content) + every < PAGE_BYTES
    (frame,) = [attributes for tag, attributes in page.found if tag == "iframe"]
    assert frame["src"] == links[0]
    assert frame["title"]
    assert reply.headers["content-security-policy"].endswith("; frame-src http://127.0.0.1:8080")
    for address in links[1:]:
        assert client.get(address).status_code == 200, address
    for robot in ("panda", "ur5e"):
        assert f"<h3>{robot}</h3>" in reply.text


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


def numbers_of(text):
    return re.findall("<dd>(.*?)</dd>", text)


def test_the_speed_of_the_machine_is_measured_for_the_page_and_never_made_up(client, monkeypatch):
    until(lambda: "ago by this service: robot panda" in page_of(client).text)
    solve, per_s, solved = numbers_of(page_of(client).text)
    assert float(solve.removesuffix(" µs").replace(",", "")) > 1.0
    assert float(per_s.replace(",", "")) > 100.0
    assert 90.0 < float(solved.removesuffix(" %")) <= 100.0
    part = client.get("/?speed", headers={"Accept": BROWSER}).text
    assert numbers_of(part) == [solve, per_s, solved]
    assert len(part) < 1000
    assert Elements(part).open == []
    (speed,) = client.app.state.service.speed_meter._newest.values()
    with monkeypatch.context() as patch:  # it is measured again once it is old
        patch.setattr("ik_service.service.routes.speed.FRESH_S", 0.0)
        until(lambda: page_of(client) and client.app.state.service.speed_meter._newest["panda"] is not speed)


@pytest.mark.parametrize("settings", [{"api_keys": {"lab": KEY}}, {}])
def test_a_number_that_is_not_measured_is_a_dash(settings, monkeypatch):
    monkeypatch.setattr("ik_service.service.routes.speed.SpeedMeter._measure", lambda *_: None)
    with served(**settings) as client:
        text = page_of(client).text
    assert numbers_of(text) == ["\N{EM DASH}"] * 3
    assert "Not measured yet" in text


def test_nothing_is_measured_while_others_are_solved_for(client, monkeypatch):
    meter = client.app.state.service.speed_meter
    monkeypatch.setattr(type(meter._pool), "solving_s", 1.0)
    monkeypatch.setattr("ik_service.service.routes.speed.FRESH_S", 0.0)
    before = dict(meter._newest)
    page_of(client)
    assert meter._newest == before


def test_links_of_robots_are_looked_for_once(monkeypatch):
    asked = []
    monkeypatch.setattr(entries, "leaf_links", lambda model: asked.append(model) or ["an end"])
    with served() as client:
        for _ in range(3):
            assert page_of(client).text.count("<p>an end</p>") == 2
    assert len(asked) == 2


@pytest.mark.parametrize("address", ["javascript:alert(1)", "127.0.0.1:8080", 'http://a/"onclick="b'])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(ValueError, match="page_url"):
        ServiceSettings(page_url=address)


def test_the_speed_is_measured_at_random_free_configurations():
    panda = load_robot("panda")
    free = panda.random_free_joint_q(np.random.default_rng(0), BATCH)
    expected = panda.forward_kinematics(free, ["panda_hand"])
    batch = reachable(panda)
    assert np.array_equal(batch.positions[0], expected.positions[:, 0])
    assert np.array_equal(batch.orientations_xyzw[0], expected.orientations_xyzw[:, 0])
