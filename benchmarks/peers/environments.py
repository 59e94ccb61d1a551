"""Environments with other programs in them, made on first use, and the scripts of this folder that run there."""

import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".environments"
MATPLOTLIB = "matplotlib==3.11.*"
NEWTON = "newton==1.8.0"
SCIPY = ("scipy", ("numpy", "scipy==1.16.*"))
LEROBOT = (  # without the dependencies for cameras, motors and data sets, of which evdev has to be compiled
    *("torch==2.10.*", "torchvision==0.25.*", "placo==0.9.*", "draccus==0.10.0", "einops", "huggingface-hub<0.36"),
    *("safetensors", "deepdiff", "gymnasium", "datasets==4.*", "termcolor", "jsonlines", "packaging<26", "pyserial"),
    *("accelerate", "opencv-python-headless<4.13", "av<16"),
)
NEWTON_ITERATIONS = 24
SLACK = 1e-4  # [rad] allowed to newton.ik, whose limits are soft: without it a fifth of its answers would fail


class PeerMissingError(Exception):
    """A peer cannot be installed or compiled here."""


def run_peer(name: str, requirements: tuple[str, ...], script: str, **given: object) -> dict[str, NDArray[np.float64]]:
    """Run a script of this folder in an environment of its own with arrays, and return the arrays of its answer.

    Raises:
        PeerMissingError: The peer cannot be installed here, or the script fails.
    """
    try:
        return run_script(environment(name, *requirements), script, **given)
    except subprocess.CalledProcessError as error:
        raise PeerMissingError(f"{name} does not run here (exit status {error.returncode})") from error


def run_script(
    python: Path | str, script: str, *, timeout_s: float | None = None, **given: object
) -> dict[str, NDArray[np.float64]]:
    """Run a script of this folder by a Python with arrays, and return the arrays that it answers with."""
    with tempfile.TemporaryDirectory() as folder:
        inputs, answers = Path(folder, "inputs.npz"), Path(folder, "answers.npz")
        np.savez(inputs, **given)
        subprocess.run([python, HERE / script, inputs, answers], check=True, timeout=timeout_s)
        with np.load(answers) as saved:
            return dict(saved)


def draw(script: str, plots: list[Path], **given: object) -> None:
    """Draw plots of arrays with Matplotlib, by a script of this folder."""
    python = environment("matplotlib", MATPLOTLIB)
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder, "inputs.npz")
        np.savez(inputs, **given)
        subprocess.run([python, HERE / script, inputs, *plots], check=True)


def environment(name: str, *requirements: str, interpreter: str = sys.executable, alone: str = "") -> Path:
    """Return the Python of an environment that has such packages, and one without its requirements, by an interpreter.

    Raises:
        PeerMissingError: It cannot be made here.
    """
    python = _environment_or_none(name, *requirements, interpreter=interpreter, alone=alone)
    if python is None:
        raise PeerMissingError(f"{name} cannot be installed here")
    return python


@cache
def _environment_or_none(name: str, *requirements: str, interpreter: str, alone: str) -> Path | None:
    """Try once; half an environment is not left behind."""
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    if folder.exists():
        return python
    install = [folder / "bin" / "pip", "install", "-qq", "--disable-pip-version-check", *requirements]
    try:
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
        subprocess.run(install, check=True)
        if alone:
            subprocess.run([*install[:4], "--no-deps", alone], check=True)
    except subprocess.CalledProcessError:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return python
