"""The Dockerfile, read."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker" / "Dockerfile").read_text()


def instructions():
    """Instructions and what follows them, in order, comments left out and lines joined."""
    lines = "\n".join(line for line in TEXT.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]


def stage(name):
    found, inside = [], False
    for word, rest in instructions():
        inside = rest.endswith(f" AS {name}") if word == "FROM" else inside
        found += [(word, rest)] if inside else []
    assert found
    return found


def only(word, where="runtime"):
    (rest,) = [rest for name, rest in stage(where) if name == word]
    return rest


def variables(where="runtime"):
    pairs = [pair for word, rest in stage(where) if word == "ENV" for pair in rest.split()]
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}
