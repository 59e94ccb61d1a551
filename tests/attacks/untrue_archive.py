"""An archive whose list of members states another size than the member unpacks to."""

import io
import struct
import zlib

import numpy as np

NAME = b"positions.npy"
BLOCK = bytes(1 << 20)


def one_position() -> bytes:
    """The file of an array with one position."""
    stream = io.BytesIO()
    np.save(stream, np.full((1, 3), 0.3, np.float32))
    return stream.getvalue()


def untrue_archive(further_megabytes: int, *, before: bytes = b"", checked_zeros: int = 0) -> bytes:
    """An archive that states the size and the checksum of one position, and unpacks to that and zeros after it.

    A thousandth of the zeros is sent; some of them may be in the checksum, and some bytes before the archive.
    """
    stated = one_position()
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    pieces = [packer.compress(stated), *(packer.compress(BLOCK) for _ in range(further_megabytes)), packer.flush()]
    data = b"".join(pieces)
    checksum = zlib.crc32(stated + bytes(checked_zeros))
    what = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, checksum, len(data), len(stated), len(NAME), 0)
    local = b"PK\3\4" + what + NAME + data
    listed = b"PK\1\2" + struct.pack("<H", 20) + what + struct.pack("<HHHII", 0, 0, 0, 0, 0) + NAME
    return before + local + listed + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(listed), len(local), 0)
