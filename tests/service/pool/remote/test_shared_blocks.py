"""Blocks of shared memory: none overlaps another, and what is given back is used again, whatever the order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ik_service.service.remote.shared_blocks import ALIGNMENT, SharedBlocks, opened_blocks

SIZE = 64 * ALIGNMENT


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 20 * ALIGNMENT)), max_size=60))
def test_blocks_never_overlap_and_all_memory_comes_back(steps):
    blocks, used = SharedBlocks(SIZE), {}
    for gives_back, size in steps:
        if gives_back and used:
            begin = sorted(used)[size % len(used)]
            blocks.give_back(begin)
            del used[begin]
        elif (begin := blocks.take(size)) is not None:
            assert begin % ALIGNMENT == 0
            assert begin + size <= SIZE
            assert all(begin + size <= other or other + length <= begin for other, length in used.items())
            used[begin] = size
    for begin in used:
        blocks.give_back(begin)
    assert blocks.take(SIZE) == 0
    blocks.close()


def test_no_block_is_given_where_there_is_no_room():
    blocks = SharedBlocks(SIZE)
    assert blocks.take(SIZE + 1) is None
    assert blocks.take(SIZE) == 0
    assert blocks.take(1) is None
    with pytest.raises(KeyError):
        blocks.give_back(ALIGNMENT)
    blocks.close()


def test_what_one_writes_the_other_reads_after_the_writer_has_closed():
    blocks = SharedBlocks(SIZE)
    theirs = opened_blocks(blocks.path)
    path = blocks.path
    begin = blocks.take(5)
    blocks.memory[begin : begin + 5] = b"hello"
    blocks.close()
    assert bytes(np.frombuffer(theirs, np.uint8, 5, begin)) == b"hello"
    with pytest.raises(OSError, match=r"."):
        opened_blocks(path)
