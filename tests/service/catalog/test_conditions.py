"""What a caller has already is not shown again, nor what has changed in its place (RFC 9110, section 13)."""

import pytest

from tests.service.catalog.conftest import kept
from tests.service.messages import problem

SHOWN = ["/v1/robots/panda", "/v1/robots/panda/urdf", "/v1/robots/my_arm", "/v1/robots/my_arm/urdf", "/v1/worlds/cell"]


@pytest.fixture(scope="module", autouse=True)
def _put(open_client):
    with kept(open_client, "/v1/robots/my_arm"), kept(open_client, "/v1/worlds/cell", {"objects": {}}):
        yield


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("url", SHOWN)
def test_what_a_caller_has_already_is_not_sent_again(open_client, url, method):
    tag = open_client.get(url).headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        reply = open_client.request(method, url, headers={"If-None-Match": known})
        assert (reply.status_code, reply.content, reply.headers["etag"]) == (304, b"", tag), known
    for other in ('"other"', tag.strip('"'), ""):
        assert open_client.request(method, url, headers={"If-None-Match": other}).status_code == 200, other


@pytest.mark.parametrize("url", SHOWN)
def test_what_is_not_the_one_that_a_caller_wants_is_412(open_client, url):
    tag = open_client.get(url).headers["etag"]
    for wanted in (tag, f'"other", {tag}', "*"):
        assert open_client.get(url, headers={"If-Match": wanted}).status_code == 200, wanted
    for wanted in ('"other"', f"W/{tag}"):
        problem(open_client.get(url, headers={"If-Match": wanted}), 412, "precondition_failed")
    both = {"If-Match": '"other"', "If-None-Match": tag}
    problem(open_client.get(url, headers=both), 412, "precondition_failed")
    assert open_client.get(url, headers={"If-Match": tag, "If-None-Match": tag}).status_code == 304


def test_what_is_not_there_is_404_whatever_the_caller_has(open_client):
    problem(open_client.get("/v1/robots/other", headers={"If-None-Match": "*"}), 404, "unknown_robot")
    problem(open_client.get("/v1/worlds/other", headers={"If-Match": "*"}), 404, "unknown_world")
