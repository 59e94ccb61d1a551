"""The last question as text to be copied: a program in Python, shell commands, and a program in C."""

import json
import shlex
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from ik_service.page.questions import AskedTarget, Question, Solving
from ik_service.robots import RobotModel
from ik_service.template_files import TemplateFolder

TEMPLATES = TemplateFolder("ik_service.page")
_DIGITS = 6


def request_html(question: Question, robot: RobotModel, solving: Solving) -> str:
    """Return a question as texts, each selectable with one click."""
    file = solving.files.get(question.robot)
    texts = {
        "Python": python_text(question, file),
        "Shell": curl_text(question, solving.address, file),
        "Shell, for C: save call.c from below first; exports the solver, compiles, runs": export_text(question, file),
        "C: call.c": c_text(question, robot),
    }
    look = "margin:0.3em 0 0.8em;white-space:pre-wrap;overflow-wrap:anywhere;user-select:all;font-size:0.9em"
    shown = "".join(f"{name}<pre style='{look}'>{escape(text)}</pre>" for name, text in texts.items() if text)
    note = "The last solve, of a drag its last step; a click selects a text.<br><br>"
    return f"<div style='padding:0.2em 0.8em;font-size:0.85em'>{note}{shown}</div>"


def python_text(question: Question, file: str | None = None) -> str:
    """Return a Python program for the same solve in its own process; `file` is the path of an uploaded robot."""
    targets = question.targets
    declared = [_declared(target, is_free=target.turns_freely) for target in targets]
    turns = ["None" if target.turns_freely else _array(target.orientations_xyzw) for target in targets]
    given = []
    if question.initial_joint_q is not None:
        given.append(f"initial_joint_q={_rounded(question.initial_joint_q)}")
    if question.frozen:
        given.append(f"frozen={list(question.frozen)}")
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


def _declared(target: AskedTarget, *, is_free: bool) -> str:
    """Return the Python declaration of a target; `is_free` says that the orientation is free."""
    if not target.free or is_free:
        return repr(target.link)
    if target.turns_freely:  # beside targets with orientations
        return f"ik_service.Target({target.link!r}, row_weights=(1, 1, 1, 0, 0, 0))"
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


def export_text(question: Question, file: str | None = None) -> str:
    """Return a shell command that exports a C solver for the same targets, and compiles `c_text` with this solver."""
    if question.opened:
        return "# C keeps all constraints: tick 'Keep loops closed'."
    targets, robot = question.targets, file or question.robot
    no_turns = all(target.turns_freely for target in targets)
    has_free = any(target.free for target in targets) and not no_turns
    if not (has_free or question.objects or "collision" in question.options):
        links = " ".join(f"--link {shlex.quote(target.link)}" for target in targets)
        only = " --position-only" if no_turns else ""
        lines = [f"ik-service export {shlex.quote(robot)} {links}{only} --entry solve --prefix robot -o robot_c"]
    else:  # the command has no options for these
        declared = ", ".join(_declared(target, is_free=no_turns) for target in targets)
        off = ", options=ik_service.SolverOptions(collision='off')" if "collision" in question.options else ""
        world = f", {_world_text(question)}" if question.objects else ""
        lines = [
            "python - <<'END'",
            "from pathlib import Path",
            "import ik_service",
            "from ik_service.export import export_solver",
            *_world_imports(question),
            f"robot = ik_service.load_robot({robot!r})",
            f"solver = ik_service.IKSolver(robot, [{declared}], device='cpu', engine='compiled'{off})",
            f"export = export_solver(solver, prefix='robot', orientations={not no_turns}{world})",
            "export.write(Path('robot_c'))",
            "END",
        ]
    return "\n".join([*lines, "cc -O2 call.c -I robot_c robot_c/robot_ik.c robot_c/*.o -lm -o call && ./call"])


def c_text(question: Question, robot: RobotModel) -> str:
    """Return a C program for the same solve by an export of `export_text`; empty if no export is possible."""
    if question.opened or question.initial_joint_q is None:
        return ""
    options = [f"options.seeds = {question.options['seeds']};"] if "seeds" in question.options else []
    if question.options.get("approximate") == "nearest":
        options.append("options.approximate_nearest = 1;")
    frozen = ""
    if question.frozen:
        stays = np.zeros(robot.joint_coord_count, int)
        stays[[robot.joint_q_start[robot.joint_index(name)] for name in question.frozen]] = 1
        frozen = (
            f"\n    const uint8_t frozen[] = {{{', '.join(map(str, stays))}}}; /* 1: stays where the start has it */"
        )
        options += ["problems.joint_limit_count = 1;", "problems.frozen = frozen;"]
    return TEMPLATES.filled(
        "call.c",
        {
            "positions": _numbers(np.stack([target.positions for target in question.targets])),
            "orientations_xyzw": _numbers(np.stack([target.orientations_xyzw for target in question.targets])),
            "start": _numbers(question.initial_joint_q),
            "frozen": frozen,
            "limits": "limits_" if question.frozen else "",
            "joint_q_type": "double" if robot.every_constraint else "float",
            "options": "".join(f"\n    {option}" for option in options),
        },
    )


def _numbers(values: Any) -> str:
    return ", ".join(map(str, _rounded(np.ravel(values))))


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
    if question.frozen:
        document["frozen"] = list(question.frozen)
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
