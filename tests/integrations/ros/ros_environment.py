"""An environment with rclpy and the messages of `definitions`, made on first use.

There are wheels for Python 3.12. What rclpy needs of ROS 2 comes with them; the messages are generated and compiled
here, which takes minutes.
"""

import hashlib
import os
import random
import re
import runpy
import shutil
import subprocess
from functools import cache
from pathlib import Path

from benchmarks.peers.environments import PeerMissingError, environment

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
VERSION = "3.12"
RCLPY = "ros-rclpy[fastrtps]==9.1.2"
PINNED = ("warp-lang", "numpy", "pyyaml", "pytest")
APART = {  # so that programs of ROS meet each other on this machine, and nobody else
    "ROS_DOMAIN_ID": str(random.SystemRandom().randint(1, 100)),  # above, ports of the system's own begin
    "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
    "RMW_IMPLEMENTATION": "rmw_fastrtps_cpp",
}


def find_interpreter() -> str | None:
    """Return the command of a Python for which there are wheels of rclpy, or None where there is none."""
    found: str | None = runpy.run_path(str(ROOT / ".ci" / "interpreters.py"))["find_interpreter"](VERSION, "PYTHON_ROS")
    return found


@cache
def ros_python() -> tuple[Path, dict[str, str]]:
    """Return the Python of the environment, and the variables with which it finds the messages."""
    interpreter = find_interpreter()
    if interpreter is None:
        raise PeerMissingError(f"wheels of rclpy are for Python {VERSION}, which is not here; PYTHON_ROS may name one")
    locked = (ROOT / "requirements-dev.lock").read_text()
    pins = [re.search(rf"^{name}==[^ ;\\]+", locked, re.MULTILINE) for name in PINNED]
    python = environment("ros", RCLPY, *(pin[0] for pin in pins if pin), interpreter=interpreter)
    sources = (HERE / "definitions.txt", HERE / "message_packages.py")
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    messages = python.parents[1] / f"messages-{digest}"
    if not messages.exists():
        part = messages.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        done = subprocess.run([python, sources[1], part], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PeerMissingError(f"messages cannot be compiled here: {done.stderr[-2000:]}")
        part.rename(messages)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "_ROS_WHEELS"))}
    return python, {**kept, **APART, "PYTHONPATH": f"{messages}{os.pathsep}{ROOT}"}
