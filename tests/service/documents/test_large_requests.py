"""What grows with a request is found where it is decoded: large ones beside the event loop."""

import threading

import numpy as np
import pytest

from ik_service.service.queue import solve_request

LARGE = 20_000  # problems: more than are decoded on the event loop


@pytest.mark.parametrize("count", [3, LARGE])
def test_patterns_of_weights_are_found_where_the_body_is_decoded(client, monkeypatch, count):
    seen = []

    def rows_on(*given, of=solve_request.rows_on):
        seen.append(threading.current_thread().name)
        return of(*given)

    monkeypatch.setattr(solve_request, "rows_on", rows_on)
    weights = np.where(np.arange(count)[:, None] % 2, [1, 1, 1, 0, 0, 0], [1.0] * 6).tolist()
    target = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]] * count, "row_weights": weights}
    reply = client.post("/v1/robots/panda/solve", json={"targets": [target], "options": {"seeds": 1}})
    assert reply.status_code == 200, reply.text
    assert len(seen) == 1
    assert seen[0].startswith("ik-side") == (count == LARGE)
