"""Kernels for GPUs compiled without one: a card of each sort finds its code in the cache by Warp's own look-up."""

import json
import os
import threading
from types import SimpleNamespace

import pytest
import warp as wp

import ik_service
from ik_service.cli.warmup_command import OBJECT_SUFFIXES
from ik_service.errors import EngineError, KernelCacheError
from ik_service.gpu_kernels import compile_for_gpus, gpu_modules
from ik_service.kernels import kernel_cache
from ik_service.kernels.kernel_cache import GPU_CODE, note_gpu_code, use_gpu_code
from ik_service.kernels.kernel_loading import KernelsFor, load_kernels
from ik_service.solver.arrays.parts import SOLVE_BRANCHES, SOLVE_EXTRAS, SOLVE_IO
from ik_service.solver.compiled import engine
from ik_service.solver.compiled.waves import KEEP_BLOCK, WAVES
from tests.gpu_code.test_cuda_registers import chain

ARCHITECTURES = (75, 90)
CONTEXT = wp._src.context
TOOLKIT = (13, 4)
BARRIER_S = 300.0  # that one compiler waits for the other to begin; it ends at once where both do


class Card(wp.Device):
    """A GPU as Warp sees it, of which it asks only what code it runs."""

    def __init__(self, arch, driver):
        self.arch, self.alias, self.ordinal = arch, "cuda:0", 0
        self.runtime = SimpleNamespace(driver_version=driver, toolkit_version=TOOLKIT)
        self.is_cubin_supported = arch in CONTEXT.runtime.nvrtc_supported_archs

    context = property(lambda self: 1)


class LoadedError(Exception):
    """Code has been found, and would go to the card."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A cache for two architectures, with the modules of a solve."""
    with pytest.MonkeyPatch.context() as patch:
        wp.init()
        folder = tmp_path_factory.mktemp("kernels")
        solver = ik_service.IKSolver(ik_service.load_robot("ur5e", collision="ignore"), ["tool0"], device="cpu")
        modules = gpu_modules(solver)
        patch.setattr(wp.config, "kernel_cache_dir", str(folder))
        first, again = (compile_for_gpus(modules, ARCHITECTURES) for _ in range(2))
        assert again == []
        yield SimpleNamespace(folder=folder, modules=modules, first=first)


def found_by(card, compiled, monkeypatch):
    """Names of the files that Warp would load onto a card, of every module of the solve; it compiles nothing."""
    monkeypatch.setattr(wp.config, "cuda_output", None)
    monkeypatch.setattr(wp.config, "ptx_target_arch", None)
    monkeypatch.setattr(CONTEXT.runtime, "default_ptx_arch", card.arch if card.is_cubin_supported else 75)

    def load(path, device):
        raise LoadedError(path)

    def compile_anew(module, *_):
        pytest.fail(f"{module.name} would be compiled")

    monkeypatch.setattr(wp._src.build, "load_cuda", load)
    monkeypatch.setattr(wp.Module, "_run_codegen", compile_anew)
    monkeypatch.setattr(CONTEXT.runtime, "get_device", lambda device: device)
    use_gpu_code(card)
    found = []
    for module, block in compiled.modules.items():
        with pytest.raises(LoadedError) as loaded:
            module.load(card, block_dim=block)
        found.append(str(loaded.value))
    return found


@pytest.mark.evidence
def test_every_module_of_a_solve_is_compiled_for_each_architecture_and_as_ptx(compiled):
    assert {SOLVE_IO, SOLVE_EXTRAS, SOLVE_BRANCHES, WAVES} < set(compiled.modules)
    assert len(compiled.modules) == 5
    assert len(compiled.first) == 5 * (len(ARCHITECTURES) + 1)
    assert all(path.stat().st_size > 1000 and path.suffix in OBJECT_SUFFIXES for path in compiled.first)
    assert json.loads((compiled.folder / GPU_CODE).read_text()) == {"cubins": [75, 90], "ptx": 75}


@pytest.mark.evidence
@pytest.mark.parametrize(
    ("arch", "driver", "code"),
    [(arch, driver, f".sm{arch}.cubin") for arch in ARCHITECTURES for driver in ((13, 0), (13, 4), (14, 0))]
    + [(arch, TOOLKIT, ".sm75.ptx") for arch in (89, 103, 121, 130)],
)
def test_a_card_takes_code_of_its_own_whatever_its_driver_and_others_take_the_ptx(
    arch, driver, code, compiled, monkeypatch
):
    found = found_by(Card(arch, driver), compiled, monkeypatch)
    assert len(found) == 4
    assert all(path.endswith(code) for path in found)


@pytest.mark.evidence
def test_a_choice_of_the_caller_stays(compiled, monkeypatch):
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(compiled.folder))
    for chosen in ("cuda_output", "ptx_target_arch"):
        with monkeypatch.context() as patch:
            patch.setattr(wp.config, chosen, {"cuda_output": "ptx", "ptx_target_arch": 80}[chosen])
            before = wp.config.cuda_output, wp.config.ptx_target_arch
            use_gpu_code(Card(90, TOOLKIT))
            assert (wp.config.cuda_output, wp.config.ptx_target_arch) == before


@pytest.mark.usefixtures("cache")
def test_what_the_cache_holds_adds_up():
    assert kernel_cache.read_gpu_code() == {}
    note_gpu_code((90,), 90)
    note_gpu_code((75, 80), 75)
    assert kernel_cache.read_gpu_code() == {"cubins": [75, 80, 90], "ptx": 75}


def test_islands_that_are_too_large_for_a_gpu_are_told():
    with pytest.raises(EngineError, match="60 DOFs"):
        gpu_modules(ik_service.IKSolver(chain(60), ["link60"], device="cpu"))


def test_what_a_card_lacks_is_compiled_side_by_side_with_checksums(cache, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(wp._src.build, "load_cuda", lambda path, device: None)
    monkeypatch.setattr(CONTEXT.runtime, "get_device", lambda device: device)
    together, build = threading.Barrier(2, timeout=BARRIER_S), wp._src.build.build_cuda

    def build_with_another(*given, **options):
        together.wait()
        build(*given, **options)

    monkeypatch.setattr(wp._src.build, "build_cuda", build_with_another)
    modules = {SOLVE_IO: 256, WAVES: KEEP_BLOCK}
    with pytest.raises(KernelCacheError, match="Failed to load CUDA module"), KernelsFor():
        load_kernels(modules, Card(90, TOOLKIT))
    made = sorted(path.name for path in cache.glob("*/*") if path.suffix in (*OBJECT_SUFFIXES, ".sha256"))
    assert len(made) == 4
    assert [f"{name}.sha256" for name in made[::2]] == made[1::2]


@pytest.mark.evidence_cases("delta", "stewart")
@pytest.mark.parametrize("name", ["panda", "delta", "stewart"])
@pytest.mark.usefixtures("threads")
def test_a_solve_loads_no_other_modules(name, monkeypatch):
    robot, loaded = ik_service.load_robot(name), dict[object, int]()
    link = "panda_hand" if name == "panda" else "platform"
    monkeypatch.setattr(engine, "load_kernels", lambda modules, device: loaded.update(modules))
    solver = ik_service.IKSolver(robot, [link], device="cpu")
    pose = robot.forward_kinematics(robot.mid_joint_q, [link])
    for options in (None, {"deadline_s": 10.0}):
        solved = solver.solve(pose.positions[:, 0], pose.orientations_xyzw[:, 0], options=options)
        assert solved.status.shape == (1,)
    modules = gpu_modules(solver)
    assert loaded
    assert {module: modules.get(module) for module in loaded} == loaded
