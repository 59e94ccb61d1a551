"""What a body unpacks to is bounded by what was counted for it, whatever the body states about itself."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from ik_service.service.codecs.json_codec import JsonCodec
from ik_service.service.codecs.npz_codec import NpzCodec
from ik_service.service.errors.exceptions import POINTER_LENGTH, FaultyFieldsError, MalformedNpzError
from tests.attacks.untrue_archive import untrue_archive

LIMIT = 32 << 20
FURTHER_MB = 64
MEGABYTE = 1 << 20


def peak_of(work):
    """The most memory that a piece of work takes [bytes]."""
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
