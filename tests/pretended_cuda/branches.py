"""Branches for GPUs: every place that asks a device what it is, and those at which the pretended GPU was asked."""

import ast
import sys
from collections.abc import Callable
from pathlib import Path

import warp as wp

ROOT = Path(__file__).parents[2]
QUESTIONS = ("is_cuda", "is_cpu")
PASSED_ON = ("has_host_copy", "in_threads", "launches_on", "device_work")
"""Functions that answer by what they ask: whoever calls them asks too."""


def asking_places() -> dict[str, set[str]]:
    """Return the places that ask, each with the lines that an answer may be noted at; as file and line."""
    found: dict[str, set[str]] = {}
    for path in sorted(path for package in ("ik_service", "objectives") for path in (ROOT / package).rglob("*.py")):
        name = path.relative_to(ROOT)
        for node in ast.walk(ast.parse(path.read_text())):
            is_call, asked = isinstance(node, ast.Call), getattr(node, "func", node)
            word = getattr(asked, "attr", getattr(asked, "id", None))
            if word in (PASSED_ON if is_call else QUESTIONS) and isinstance(node, ast.Call | ast.Attribute):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                found[f"{name}:{node.lineno}"] = {f"{name}:{line}" for line in lines}
    return found


def noted_answers() -> set[str]:
    """Note from here on, in this process, file and line of every place of this project that asks a GPU."""
    seen, is_gpu = set[str](), wp.Device.is_cuda.fget

    def noted(ask: Callable[[wp.Device], object]) -> property:
        def answer(device: wp.Device) -> bool:
            asking = sys._getframe(1) if is_gpu(device) else None
            while asking is not None:
                path = Path(asking.f_code.co_filename)
                if path.is_relative_to(ROOT):
                    seen.add(f"{path.relative_to(ROOT)}:{asking.f_lineno}")
                asking = asking.f_back if asking.f_code.co_name in PASSED_ON else None
            return bool(ask(device))

        return property(answer)

    for question in QUESTIONS:
        setattr(wp.Device, question, noted(getattr(wp.Device, question).fget))
    return seen
