"""The OpenAPI document in the repository is that of the service: a change of the surface shows in a diff."""

from pathlib import Path

import orjson

FILE = Path(__file__).parents[3] / "docs" / "openapi.json"


def test_the_committed_document_is_the_one_that_is_served(client):
    committed = orjson.loads(FILE.read_bytes())
    assert committed == client.get("/openapi.json").json(), (
        "The surface has changed; write it anew with 'make openapi'."
    )
