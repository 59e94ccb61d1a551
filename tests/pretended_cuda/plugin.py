"""pytest plugin for tests on the pretended device, in a process of its own: `run_on_device` starts it.

The process has a kernel cache of its own, since code for the pretended device bears the names of code for a GPU. With
`Setting.INSTEAD` solvers and controllers that ask for a CPU get the device, so that any test of theirs runs on it.
"""

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import warp as wp

from tests.pretended_cuda.branches import ROOT, Answers
from tests.pretended_cuda.device import SCHEDULES, Device, build, install
from tests.pretended_cuda.translation import NATIVE

GPU = "cuda:0"
SLOTS_MOST = 256  # of the staged engine's batches: a card has room for more, a CPU takes long
FOLDER, NUMBERS, INSTEAD, REPORT = (f"PRETENDED_CUDA_{name}" for name in ("FOLDER", "NUMBERS", "INSTEAD", "REPORT"))
"""Environment variables: the library's folder, chosen numbers, whether it stands for CPUs, where the report goes."""
FOLDERS = 2  # of the device that are kept
COUNTS = ("launches", "graphs", "graph_launches", "waits", "threads", "refusals", "host_addresses")


def device_folder(kept: Path, processor: str) -> Path:
    """Return the folder of the device and its kernels, below one that is kept; equal sources have the same.

    Those of sources of before are removed, but for the last one.

    Args:
        kept: The folder that is kept.
        processor: What sort of CPU this is.
    """
    digest = hashlib.sha256(f"{wp.config.version} {processor}".encode())
    for path in (*sorted(NATIVE.iterdir()), NATIVE.with_name("translation.py")):
        digest.update(path.read_bytes())
    folder = kept / f"pretended-{digest.hexdigest()[:16]}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.touch()
    for old in sorted(kept.glob("pretended-*"), key=lambda path: path.stat().st_mtime)[:-FOLDERS]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def run_on_device(
    folder: Path,
    *arguments: str,
    numbers: Mapping[str, int] | None = None,
    instead: bool = False,
) -> tuple[int, str, dict[str, Any]]:
    """Run pytest in a process with the device.

    Args:
        folder: Of `device_folder`.
        arguments: Of pytest.
        numbers: Chosen numbers of the device.
        instead: Whether the device stands for CPUs.

    Returns:
        Its exit status, what it says, and the report: `places` that a GPU answered, and `counts` of the device.
    """
    report = folder / f"report-{os.getpid()}.json"
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "WARP_"))}
    variables |= {"WARP_CACHE_PATH": str(folder / "kernels"), FOLDER: str(folder), REPORT: str(report)}
    variables |= {NUMBERS: json.dumps(numbers or {}), INSTEAD: str(int(instead))}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-W", "default", "-p", "no:cacheprovider"]
    command += ["-p", __name__, *arguments]
    report.unlink(missing_ok=True)
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    told = json.loads(report.read_text()) if report.exists() else {}
    report.unlink(missing_ok=True)
    return done.returncode, done.stdout + done.stderr, told


def _begin() -> Device:
    """Put the device into this process."""
    folder = Path(os.environ[FOLDER])
    device = install(build(folder))
    device.set(**json.loads(os.environ.get(NUMBERS, "{}")))
    return device


_device = _begin() if FOLDER in os.environ else None
_answers = Answers()


def pytest_configure() -> None:
    """Watch the branches, and put the device in the place of CPUs where that is asked for."""
    from ik_service.solver.staged import engine

    _answers.watch()
    engine.SLOTS_MAX["cuda"] = SLOTS_MOST
    if os.environ.get(INSTEAD) == "1":
        _stand_for_cpus()


def _stand_for_cpus() -> None:
    from ik_service import ik_solver as solver
    from ik_service.control import IKController

    resolve, construct = solver.resolve_device, IKController.__init__

    @functools.wraps(construct)
    def on_device(self: Any, *given: Any, **named: Any) -> None:
        construct(self, *given, **{**named, "device": _instead(named.get("device", "cpu"))})

    solver.resolve_device = lambda device: resolve(_instead(device))
    IKController.__init__ = on_device


def _instead(device: Any) -> Any:
    return GPU if str(device) in ("cpu", "auto") else device


def pytest_unconfigure() -> None:
    """Write the report."""
    if _device is not None:
        counts = {name: _device[name] for name in COUNTS}
        Path(os.environ[REPORT]).write_text(json.dumps({"places": _answers.places(), "counts": counts}))


@pytest.fixture
def device() -> Device:
    """The pretended device."""
    assert _device is not None
    return _device


@pytest.fixture(params=SCHEDULES)
def schedule(request: pytest.FixtureRequest, device: Device) -> Iterator[str]:
    """Runs a test with threads in every order, and streams that work at once and late."""
    with device.scheduled(**SCHEDULES[request.param]):
        yield request.param
