"""Negotiation: Content-Type says what comes, Accept what goes out."""

import pytest
from starlette.datastructures import Headers

from ik_service.service.codecs.media_types import BY_NAME, CODECS, answer_codec, codecs_of
from ik_service.service.errors.exceptions import ContentEncodingError, MediaTypeError, NotAcceptableError
from tests.service.messages import JSON, MSGPACK, NPZ, problem, written

BODY = {"targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]]}]}
GIVEN = {
    JSON: [JSON, "Application/JSON; charset=utf-8"],
    MSGPACK: [MSGPACK, "application/x-msgpack", "application/vnd.msgpack"],
    NPZ: [NPZ],
}


@pytest.mark.parametrize(("served", "given"), [(kind, one) for kind, several in GIVEN.items() for one in several])
def test_the_content_type_names_the_codec(served, given):
    assert codecs_of(Headers({"content-type": given}))[0].media_type == served


@pytest.mark.parametrize("given", [None, "", "text/plain", "json", "application/*", "*/*", "application/problem+json"])
def test_another_content_type_is_refused_with_what_is_served(given):
    with pytest.raises(MediaTypeError) as caught:
        codecs_of(Headers({} if given is None else {"content-type": given}))
    assert all(codec.media_type in str(caught.value) for codec in CODECS)


def test_a_compressed_body_is_refused():
    for encoding in ("gzip", "br", "gzip, identity", "zstd"):
        with pytest.raises(ContentEncodingError):
            codecs_of(Headers({"content-type": JSON, "content-encoding": encoding}))
    assert codecs_of(Headers({"content-type": JSON, "content-encoding": "identity"}))[0].media_type == JSON


ACCEPTED = {
    MSGPACK: [
        *(None, "", "*/*", "application/*", "nonsense;q=x, */*", "application/x-msgpack", "text/html, */*;q=0.1"),
        "application/*;q=0.2, application/x-npz;q=0.1",
    ],
    JSON: [
        *(JSON, "application/JSON", "application/json, application/x-npz", "application/msgpack;q=0, */*"),
        "application/json;q=0.5, application/x-npz;q=0.4",
        "text/html, application/json;q=0.9, */*;q=0.8",
    ],
    NPZ: [
        "application/json;q=0.5, application/x-npz",
        "application/msgpack;q=0, application/json;q=0, */*;q=0.1",
        f"application/json;level=1;q=0.3,{NPZ} ; q=1",
    ],
}


@pytest.mark.parametrize(("answer", "accept"), [(kind, one) for kind, several in ACCEPTED.items() for one in several])
def test_accept_chooses_the_codec_of_the_answer(answer, accept):
    headers = Headers({} if accept is None else {"accept": accept})
    assert answer_codec(headers, BY_NAME[MSGPACK]).media_type == answer


@pytest.mark.parametrize(
    "accept", ["text/html", "text/*", "application/json;q=0", "*/*;q=0", "nonsense", "application/json;q=2", ";", ",,"]
)
def test_nothing_acceptable_is_refused_with_what_is_served(accept):
    with pytest.raises(NotAcceptableError) as caught:
        answer_codec(Headers({"accept": accept}), BY_NAME[JSON])
    assert all(codec.media_type in str(caught.value) for codec in CODECS)


def test_several_accept_headers_are_one():
    headers = Headers(raw=[(b"accept", b"text/html"), (b"accept", b"application/x-npz")])
    assert answer_codec(headers, BY_NAME[JSON]).media_type == NPZ


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Accept": "text/html"}, 406, "not_acceptable"),
        ({"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
        ({"Content-Encoding": "gzip"}, 415, "unsupported_content_encoding"),
    ],
)
def test_refusals_are_problem_documents(client, headers, status, code):
    headers = {"Content-Type": JSON, **headers}
    problem(client.post("/v1/robots/panda/solve", content=written(BODY), headers=headers), status, code)
