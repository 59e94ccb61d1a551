"""Definitions of the messages and services that the node speaks, for Python environments without a ROS installation.

A type without a package is of the same one. In a ROS installation the node takes the packages that are installed there.
"""

from pathlib import Path

_LINES = [line.split(": ") for line in Path(__file__).with_suffix(".txt").read_text().splitlines() if ": " in line]
_TEXTS = {name: fields.replace(", ", "\n") for name, fields in _LINES}
SERVICES = {name: text for name, text in _TEXTS.items() if "---" in text}
MESSAGES = {name: text for name, text in _TEXTS.items() if name not in SERVICES}
PACKAGES = tuple(dict.fromkeys(name.partition("/")[0] for name in MESSAGES))
"""Packages of both, each after those that it needs."""
