"""The last question as text to be copied: a program in Python, and a shell command."""

import json
import shlex
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from ik_service.client.messages import solve_document
from ik_service.page.local_solving import LocalSolving
from ik_service.page.questions import Question
from ik_service.page.words import block_html

_DIGITS = 6


def request_html(question: Question, solving: LocalSolving) -> str:
    """Return a question as texts, each selectable with one click."""
    file = solving.files.get(question.robot)
    texts = {"Python": python_text(question, file), "Shell": curl_text(question, solving.address, file)}
    shown = "".join(f"{name}<pre>{escape(text)}</pre>" for name, text in texts.items())
    note = "The last solve, of a drag its last step; a click selects a text.<br><br>"
    return block_html(note + shown)


def python_text(question: Question, file: str | None = None) -> str:
    """Return a Python program for the same solve in its own process; `file` is the path of an uploaded robot."""
    document, given = request_document(question), list[str]()
    targets, objects = document["targets"], document.get("world", {}).get("objects", {})
    given += [f"{name}={document[name]}" for name in ("initial_joint_q", "options") if name in document]
    given += [f"world=World({{{', '.join(_object_text(*one) for one in objects.items())}}})"] if objects else []
    shapes = sorted({one["shape"].capitalize() for one in objects.values()})
    arguments = ",\n    ".join(["positions, orientations_xyzw", *given])
    positions = [f"np.array({one['positions']})" for one in targets]
    turns = [f"np.array({one['orientations_xyzw']})" if "orientations_xyzw" in one else "None" for one in targets]
    return "\n".join(
        [
            "import numpy as np",
            "import ik_service",
            *([f"from ik_service.robots import {', '.join([*shapes, 'World'])}"] if objects else []),
            "",
            f"robot = ik_service.load_robot({file or question.robot!r})",
            f"solver = ik_service.IKSolver(robot, [{', '.join(map(_declared, targets))}])",
            f"positions = [{', '.join(positions)}]",
            f"orientations_xyzw = [{', '.join(turns)}]",
            f"result = solver.solve({arguments})",
            "print(result.status_names, result.joint_q)",
        ]
    )


def _declared(target: Mapping[str, Any]) -> str:
    """Return the Python declaration of a target."""
    free = target.get("free")
    return f"ik_service.Target({target['link']!r}, free={free})" if free else repr(target["link"])


def _object_text(name: str, one: Mapping[str, Any]) -> str:
    if one["shape"] == "sphere":
        return f"{name!r}: Sphere({one['radius']}, {tuple(one['position'])})"
    pose = (*one["position"], *one.get("orientation_xyzw", (0.0, 0.0, 0.0, 1.0)))
    return f"{name!r}: Box({tuple(one['size'])}, {pose})"


def curl_text(question: Question, address: str, file: str | None = None) -> str:
    """Return a shell command for the same solve over HTTP; a service knows no uploaded robot."""
    if file is not None:
        return f"# {address} has no such robot. Where robots may be put: PUT /v1/robots/NAME with {file!r}"
    body = shlex.quote(json.dumps(request_document(question)))
    return f"curl -s {address}/v1/robots/{question.robot}/solve -H 'Content-Type: application/json' -d {body}"


def request_document(question: Question) -> dict[str, Any]:
    """Return a question as the body of an HTTP request."""
    document: dict[str, Any] = _rounded(solve_document({}, question.targets, {}, question.fields))
    return document


def _rounded(value: Any) -> Any:
    """Return a value of a document with rounded numbers, with lists for arrays, and without fields of value None."""
    if isinstance(value, Mapping):
        return {name: _rounded(one) for name, one in value.items() if one is not None}
    if isinstance(value, np.ndarray | list | tuple):
        return [_rounded(one) for one in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return round(value, _DIGITS) + 0.0 if isinstance(value, float) else value  # no minus before a zero
