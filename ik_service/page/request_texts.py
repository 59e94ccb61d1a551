"""The last question as text to be copied: a program in Python, and a shell command."""

import json
import shlex
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from ik_service.page.local_solving import LocalSolving
from ik_service.page.questions import AskedTarget, Question
from ik_service.page.words import block_html

_DIGITS = 6


def request_html(question: Question, solving: LocalSolving) -> str:
    """Return a question as texts, each selectable with one click."""
    file = solving.files.get(question.robot)
    texts = {"Python": python_text(question, file), "Shell": curl_text(question, solving.address, file)}
    look = "margin:0.3em 0 0.8em;white-space:pre-wrap;overflow-wrap:anywhere;user-select:all;font-size:0.9em"
    shown = "".join(f"{name}<pre style='{look}'>{escape(text)}</pre>" for name, text in texts.items())
    note = "The last solve, of a drag its last step; a click selects a text.<br><br>"
    return block_html(note + shown)


def python_text(question: Question, file: str | None = None) -> str:
    """Return a Python program for the same solve in its own process; `file` is the path of an uploaded robot."""
    targets = question.targets
    declared = [_declared(target) for target in targets]
    turns = ["None" if target.turns_freely else _array(target.orientations_xyzw) for target in targets]
    given = []
    if question.initial_joint_q is not None:
        given.append(f"initial_joint_q={_rounded(question.initial_joint_q)}")
    if question.opened:
        given.append(f"constraint_enabled={dict.fromkeys(question.opened, False)}")
    if question.options:
        given.append(f"options={dict(question.options)}")
    if question.objects:
        given.append(_world_text(question))
    arguments = "".join(f",\n    {one}" for one in given)
    return "\n".join(
        [
            "import numpy as np",
            "import ik_service",
            *_world_imports(question),
            "",
            f"robot = ik_service.load_robot({file or question.robot!r})",
            f"solver = ik_service.IKSolver(robot, [{', '.join(declared)}])",
            f"positions = [{', '.join(_array(target.positions) for target in targets)}]",
            f"orientations_xyzw = [{', '.join(turns)}]",
            f"result = solver.solve(positions, orientations_xyzw{arguments})",
            "print(result.status_names, result.joint_q)",
        ]
    )


def _declared(target: AskedTarget) -> str:
    """Return the Python declaration of a target."""
    if not target.free or target.turns_freely:
        return repr(target.link)
    return f"ik_service.Target({target.link!r}, free={list(target.free)})"


def _world_imports(question: Question) -> list[str]:
    shapes = sorted({f"{one['shape'].capitalize()}" for one in question.objects.values()})
    return [f"from ik_service.robots import {', '.join([*shapes, 'World'])}"] if question.objects else []


def _world_text(question: Question) -> str:
    return f"world=World({{{', '.join(_object_text(*one) for one in question.objects.items())}}})"


def _object_text(name: str, one: Mapping[str, Any]) -> str:
    if one["shape"] == "sphere":
        return f"{name!r}: Sphere({one['radius']}, {tuple(_rounded(one['position']))})"
    pose = _rounded([*one["position"], *one.get("orientation_xyzw", (0.0, 0.0, 0.0, 1.0))])
    return f"{name!r}: Box({tuple(one['size'])}, {tuple(pose)})"


def curl_text(question: Question, address: str, file: str | None = None) -> str:
    """Return a shell command for the same solve over HTTP; a service knows no uploaded robot."""
    if file is not None:
        return f"# {address} has no such robot. Where robots may be put: PUT /v1/robots/NAME with {file!r}"
    body = shlex.quote(json.dumps(request_document(question)))
    return f"curl -s {address}/v1/robots/{question.robot}/solve -H 'Content-Type: application/json' -d {body}"


def request_document(question: Question) -> dict[str, Any]:
    """Return a question as the body of an HTTP request."""
    targets = []
    for target in question.targets:
        fields: dict[str, Any] = {"link": target.link, "positions": _rounded(target.positions)}
        if not target.turns_freely:
            fields["orientations_xyzw"] = _rounded(target.orientations_xyzw)
            if target.free:
                fields["free"] = list(target.free)
        targets.append(fields)
    document: dict[str, Any] = {"targets": targets}
    if question.initial_joint_q is not None:
        document["initial_joint_q"] = _rounded(question.initial_joint_q)
    if question.opened:
        document["constraints"] = {"disable": list(question.opened)}
    if question.options:
        document["options"] = dict(question.options)
    if question.objects:
        numbers = ("position", "orientation_xyzw")
        document["world"] = {
            "objects": {
                name: {key: _rounded(value) if key in numbers else value for key, value in one.items()}
                for name, one in question.objects.items()
            }
        }
    return document


def _array(values: Any) -> str:
    return f"np.array({_rounded(values)})"


def _rounded(values: Any) -> Any:
    return (np.round(np.asarray(values, np.float64), _DIGITS) + 0.0).tolist()  # no minus before a zero
