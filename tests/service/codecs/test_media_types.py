"""Negotiation by Content-Type and Accept; bodies unpack to no more than the counted size."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest
from starlette.datastructures import Headers

from ik_service.service.codecs.json_codec import JsonCodec
from ik_service.service.codecs.media_types import BY_NAME, CODECS, answer_codec, codecs_of
from ik_service.service.codecs.npz_codec import NpzCodec
from ik_service.service.errors.exceptions import (
    POINTER_LENGTH,
    ContentEncodingError,
    FaultyFieldsError,
    MalformedNpzError,
    MediaTypeError,
    NotAcceptableError,
)
from tests.attacks.untrue_archive import untrue_archive
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


# ---------------------------------------------------------------------- stated sizes
LIMIT = 32 << 20
FURTHER_MB = 64
MEGABYTE = 1 << 20


def peak_of(work):
    """Peak memory of a piece of work [bytes]."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(body, match):
    with pytest.raises(MalformedNpzError, match=match):
        NpzCodec().decode(body, "link=panda_hand", LIMIT)


def test_a_member_is_unpacked_to_the_size_that_is_stated_and_no_further():
    body = untrue_archive(FURTHER_MB)
    assert peak_of(lambda: refused(body, "CRC-32")) < MEGABYTE
    assert NpzCodec().decoded_bytes(body, LIMIT) == len(body)
    refused(untrue_archive(1, checked_zeros=1), "its stated size")  # with the checksum of a byte more
    arrays = NpzCodec().decode(untrue_archive(0), "", LIMIT).arrays
    assert arrays["positions"].tolist() == np.full((1, 3), np.float32(0.3)).tolist()


def test_members_may_be_listed_in_any_order():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("positions", "orientations_xyzw"):
            with archive.open(f"{name}.npy", "w") as member:
                np.save(member, np.ones((1, 3 if name == "positions" else 4)))
        archive.filelist.reverse()
    with zipfile.ZipFile(file) as archive:
        assert archive.infolist()[0].header_offset > 0
    assert NpzCodec().decode(file.getvalue(), "link=panda_hand", LIMIT).arrays


def test_bytes_before_an_archive_are_refused_and_hide_nothing_from_the_estimate():
    body = untrue_archive(0, before=b"x" * 64)
    assert NpzCodec().decoded_bytes(body, LIMIT) == len(body)
    refused(body, "bytes before the first member")


def decode(body, pointer):
    with pytest.raises(FaultyFieldsError) as caught:
        JsonCodec().decode(body)
    assert caught.value.faults[0].pointer == pointer


@pytest.mark.parametrize("first", [True, False])
def test_a_number_that_is_not_finite_is_found_in_the_memory_that_was_counted(first):
    ones = b"1," * 500_000
    body = b'{"x":[NaN,' + ones + b"1]}" if first else b'{"x":[' + ones + b"NaN]}"
    peak = peak_of(lambda: decode(body, "/x/0" if first else "/x/500000"))
    assert peak < JsonCodec().decoded_bytes(body)


def test_a_long_name_is_not_copied_for_each_number_below_it():
    body = b'{"' + b"n" * 100_000 + b'":[' + b"1.5," * 10_000 + b"NaN]}"
    peak = peak_of(lambda: decode(body, "/" + "n" * POINTER_LENGTH + "/10000"))
    assert peak < 10 * MEGABYTE  # a gigabyte before: the name once for each number
