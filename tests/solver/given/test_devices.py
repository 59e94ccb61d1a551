"""What is said where a GPU is asked for, or to be expected, and there is none."""

import logging
import shutil
import subprocess

import pytest
import warp as wp

from ik_service import IKSolver
from ik_service.solver import construction
from objectives import InputError


def pretend(monkeypatch, driver, **variables):
    """Have Warp find a driver, and no GPU."""
    monkeypatch.setattr(construction, "driver_version", lambda: driver)
    monkeypatch.setattr(wp, "get_cuda_device_count", lambda: 0)
    monkeypatch.setattr(wp, "get_cuda_toolkit_version", lambda: (13, 4))
    monkeypatch.setattr(wp, "get_preferred_device", lambda: wp.get_device("cpu"))
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.skipif(wp.is_cuda_available(), reason="This machine has a GPU, so that none is missing.")
@pytest.mark.parametrize(
    ("driver", "variables", "words"),
    [
        (None, {}, "no NVIDIA driver is found here; a container gets it by --gpus"),
        ((12, 8), {}, "the NVIDIA driver is for CUDA up to 12.8, and Warp needs 13.0"),
        ((13, 0), {}, r"the NVIDIA driver shows no GPU\."),
        ((13, 1), {"CUDA_VISIBLE_DEVICES": ""}, r"the NVIDIA driver shows no GPU \(CUDA_VISIBLE_DEVICES=\)"),
    ],
)
def test_a_gpu_that_is_not_there_is_an_error_with_its_cause(panda, monkeypatch, driver, variables, words):
    pretend(monkeypatch, driver, **variables)
    with pytest.raises(InputError, match=f"device is 'cuda:0', but {words}.* Devices: auto, cpu"):
        IKSolver(panda, ["panda_hand"], device="cuda:0")


@pytest.mark.parametrize(
    ("driver", "variables", "words"),
    [
        (None, {}, None),
        (None, {"NVIDIA_VISIBLE_DEVICES": "void"}, None),
        (None, {"NVIDIA_VISIBLE_DEVICES": "all"}, "no NVIDIA driver is found"),
        ((12, 8), {}, "Warp needs 13.0"),
        ((13, 0), {"CUDA_VISIBLE_DEVICES": "7"}, "shows no GPU (CUDA_VISIBLE_DEVICES=7)"),
    ],
)
def test_where_a_gpu_is_to_be_expected_the_cpu_is_taken_with_a_warning(
    panda, monkeypatch, caplog, driver, variables, words
):
    pretend(monkeypatch, driver, **variables)
    with caplog.at_level(logging.WARNING, "ik_service"):
        solver = IKSolver(panda, ["panda_hand"], device="auto")
    assert str(solver.device) == "cpu"
    said = [record.getMessage() for record in caplog.records]
    if words is None:
        assert said == []
    else:
        (line,) = said
        assert line.startswith("Solving on the CPU: ")
        assert words in line


@pytest.mark.skipif(shutil.which("cc") is None, reason="A C compiler is needed to stand in for a driver.")
def test_the_version_is_asked_of_the_driver_itself(monkeypatch, tmp_path):
    monkeypatch.setattr(construction, "DRIVER", str(tmp_path / "none.so"))
    assert construction.driver_version() is None
    source = tmp_path / "driver.c"
    source.write_text("int cuDriverGetVersion(int *version) { *version = 12080; return 0; }\n")
    monkeypatch.setattr(construction, "DRIVER", str(tmp_path / "driver.so"))
    subprocess.run(["cc", "-shared", "-o", tmp_path / "driver.so", source], check=True)
    assert construction.driver_version() == (12, 8)
