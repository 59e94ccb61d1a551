"""pytest plugin for tests on the pretended device, in a process of its own: `run_on_device` starts it.

The process has a kernel cache of its own, since code for the pretended device bears the names of code for a GPU. With
`INSTEAD` solvers and controllers that ask for a CPU get the device, so that any test of theirs runs on it.
"""

import functools
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import warp as wp

from tests.pretended_cuda.branches import ROOT, noted_answers
from tests.pretended_cuda.device import SCHEDULES, Device, build, install
from tests.pretended_cuda.translation import NATIVE

SLOTS_MOST = 256  # of the staged engine's batches: a card has room for more, a CPU takes long
FOLDER, NUMBERS, INSTEAD, REPORT = (f"PRETENDED_CUDA_{name}" for name in ("FOLDER", "NUMBERS", "INSTEAD", "REPORT"))
"""Environment variables: the library's folder, chosen numbers, whether it stands for CPUs, where the report goes."""
COUNTS = ("launches", "graphs", "graph_launches", "waits", "threads", "refusals", "host_addresses")


def device_folder(kept: Path, processor: str) -> Path:
    """The folder of the device and its kernels, below one that is kept; equal sources have the same."""
    digest = hashlib.sha256(f"{wp.config.version} {processor}".encode())
    for path in (*sorted(NATIVE.iterdir()), NATIVE.with_name("translation.py")):
        digest.update(path.read_bytes())
    folder = kept / f"pretended-{digest.hexdigest()[:16]}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def run_on_device(
    folder: Path, *arguments: str, numbers: Mapping[str, int] | None = None, instead: bool = False
) -> tuple[int, str, dict[str, Any]]:
    """Run pytest in a process with the device, with chosen numbers, in the place of CPUs or not.

    Returns:
        Its exit status, what it says, and the report: `places` that a GPU answered, and `counts` of the device.
    """
    report = folder / f"report-{os.getpid()}.json"
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "WARP_"))}
    variables |= {"WARP_CACHE_PATH": str(folder / "kernels"), FOLDER: str(folder), REPORT: str(report)}
    variables |= {NUMBERS: json.dumps(numbers or {}), INSTEAD: str(int(instead))}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-W", "default", "-p", "no:cacheprovider"]
    command += ["-p", __name__, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    told = json.loads(report.read_text()) if report.exists() else {}
    report.unlink(missing_ok=True)
    return done.returncode, done.stdout + done.stderr, told


_device, _places = None, set[str]()
if FOLDER in os.environ:
    _device, _places = install(build(Path(os.environ[FOLDER]))), noted_answers()
    _device.set(**json.loads(os.environ[NUMBERS]))


def pytest_configure() -> None:
    """Put the device in the place of CPUs where that is asked for."""
    from ik_service.solver.staged import engine

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
    return "cuda:0" if str(device) in ("cpu", "auto") else device


def pytest_unconfigure() -> None:
    if _device is not None:
        counts = {name: _device[name] for name in COUNTS}
        Path(os.environ[REPORT]).write_text(json.dumps({"places": sorted(_places), "counts": counts}))


@pytest.fixture
def device() -> Device:
    return _device


@pytest.fixture(params=SCHEDULES)
def schedule(request: pytest.FixtureRequest, device: Device) -> Iterator[None]:
    with device.scheduled(**SCHEDULES[request.param]):
        yield
