"""Branches for GPUs: every place that asks a device what it is, and those at which the pretended GPU was asked."""

import ast
import sys
from pathlib import Path
from types import CodeType

import warp as wp

ROOT = Path(__file__).parents[2]
PACKAGES = ("ik_service", "objectives")
QUESTIONS = ("is_cuda", "is_cpu")
PASSED_ON = ("has_host_copy", "in_threads", "launches_on", "turn_on")
"""Functions that answer by what they ask: whoever calls them asks too."""


def asking_places() -> dict[str, range]:
    """Return the places that ask: by file and line, the lines that an answer may be noted at."""
    found: dict[str, range] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            for node in ast.walk(ast.parse(path.read_text())):
                if _asks(node):
                    found[f"{name}:{node.lineno}"] = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return found


def _asks(node: ast.AST) -> bool:
    """Whether an expression asks a device what it is, or calls what does so for it."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", getattr(node.func, "id", None)) in PASSED_ON
    return isinstance(node, ast.Attribute) and node.attr in QUESTIONS


class Answers:
    """Notes where GPUs were asked what they are."""

    def __init__(self) -> None:
        self._seen: set[tuple[CodeType, int]] = set()

    def watch(self) -> None:
        """Note answers from here on, in this process."""
        is_gpu = wp.Device.is_cuda.fget

        def noted(question: str) -> property:
            ask = getattr(wp.Device, question).fget

            def answer(device: wp.Device) -> bool:
                asking = sys._getframe(1) if is_gpu(device) else None
                while asking is not None:
                    self._seen.add((asking.f_code, asking.f_lineno))
                    asking = asking.f_back if asking.f_code.co_name in PASSED_ON else None
                return bool(ask(device))

            return property(answer)

        for question in QUESTIONS:
            setattr(wp.Device, question, noted(question))

    def places(self) -> list[str]:
        """Return file and line of every place of this project that asked a GPU."""
        found = []
        for code, line in self._seen:
            path = Path(code.co_filename)
            if path.is_relative_to(ROOT):
                found.append(f"{path.relative_to(ROOT)}:{line}")
        return sorted(found)


if __name__ == "__main__":
    sys.stdout.write("\n".join(sorted(asking_places())) + "\n")
