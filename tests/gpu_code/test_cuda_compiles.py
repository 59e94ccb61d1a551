"""Every kernel compiles for CUDA, which needs no GPU: one set of sources serves both devices."""

import subprocess
import sys
from pathlib import Path

import pytest
import warp as wp

import ik_service
import objectives
from ik_service.collision.collision_data import CollisionData
from ik_service.compiler import Lanes
from ik_service.control import ControlLimits, IKController, tick_islands
from ik_service.control.clearance.keep import keep_kernel
from ik_service.solver.second_tries.collision_repair import near_kernel
from tests.gpu_code.cubins import compiled_for, island_kernels, usage
from tests.kept_code import code_is_kept
from tests.objectives.objectives_of_tests import Choices, Functions, Spheres, sphere_pairs

ARCHITECTURE = 90
ROOT = Path(__file__).parents[2]
UNIT = (0.0, 0.0, 0.0, 1.0)


def used_modules():
    """Modules of all kernels that exist once every built-in objective has been part of a solve."""
    robot = ik_service.load_robot("humanoid", collision="ignore")
    everything = [
        objectives.IKObjectivePosition("left_sole", (0, 0, 0)),
        objectives.IKObjectiveRotation("left_sole", UNIT),
        objectives.IKObjectivePose("right_sole", (0, 0, 0), UNIT, offset=(0, 0, 0, *UNIT), reference_link="pelvis"),
        objectives.IKObjectiveRelativePose("left_grasp", "right_grasp", (0, 0, 0), UNIT),
        objectives.IKObjectiveLookAt("head_camera", (1, 0, 1)),
        objectives.IKObjectiveAxisAlign("left_grasp", (0, 0, 1), (1, 0, 0)),
        objectives.IKObjectivePlane("left_sole", (0, 0, 0), (0, 0, 1)),
        objectives.IKObjectiveLine("right_grasp", (0, 0, 0), (0, 0, 1), reference_link="pelvis"),
        objectives.IKObjectiveCenterOfMass((0, 0, 0.5)),
        objectives.IKObjectivePosture(robot.mid_joint_q),
        objectives.IKObjectiveDamping(robot.mid_joint_q),
        objectives.IKObjectiveJointLimit(),
    ]
    options = ik_service.SolverOptions(max_iterations=1, seeds=1, candidates=2)
    ik_service.IKSolver(robot, ["left_grasp"], objectives=everything, device="cpu", options=options).solve(
        [[0.3, 0.2, 1.0]]
    )
    ours = [module for name, module in sys.modules.items() if name.split(".")[0] in ("ik_service", "objectives")]
    kernels = {value for module in ours for value in vars(module).values() if isinstance(value, wp.Kernel)}
    generated = {m for name, m in wp._src.context.user_modules.items() if name.startswith("objectives_")}
    return {kernel.module for kernel in kernels} | generated


@pytest.mark.parametrize(
    ("name", "link", "precision"),
    [
        ("panda", "panda_hand", "float32"),
        pytest.param("panda", "panda_hand", "float64", marks=pytest.mark.evidence),
        pytest.param("humanoid", "left_grasp", "float32", marks=pytest.mark.evidence),
    ],
)
def test_the_generated_kernels_of_islands_compile_for_cuda(name, link, precision, tmp_path):
    solver = ik_service.IKSolver(
        ik_service.load_robot(name, collision="ignore"), [link], device="cpu", engine="compiled"
    )
    kernels = island_kernels(solver, precision=precision)
    assert [one.source.lanes.precision for one in kernels] == ["float32", "float64"][: 1 + (precision == "float64")]
    taken = usage(compiled_for(kernels[-1].kernel, ARCHITECTURE, tmp_path))
    assert 64 < taken.registers <= 255
    if (name, precision) == ("panda", "float32"):
        assert taken.local_bytes == 0


@pytest.mark.evidence
def test_rows_as_a_loop_functions_and_choices_compile_for_cuda(tmp_path):
    robot = ik_service.load_robot("panda", collision="ignore")
    own = [Spheres(sphere_pairs(robot, 120)), Functions("panda_link4"), Choices("panda_hand")]
    own[0].set_row_tolerances(0.01)
    solver = ik_service.IKSolver(robot, ["panda_hand"], objectives=own, device="cpu", engine="compiled")
    (kernel,) = island_kernels(solver)
    assert len(kernel.source.program.loops) == 1
    assert 64 < usage(compiled_for(kernel.kernel, ARCHITECTURE, tmp_path)).registers <= 255


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("four_bar", "rocker"),
        pytest.param("panda", "panda_hand", marks=pytest.mark.evidence),
        pytest.param("humanoid", "left_grasp", marks=pytest.mark.evidence),
    ],
)
def test_the_kernels_of_ticks_compile_for_cuda(name, link, tmp_path, monkeypatch):
    monkeypatch.setattr(tick_islands, "lanes_on", lambda device, robots: Lanes(1, "float64"))
    monkeypatch.setattr(tick_islands, "load_kernels", lambda modules, device: None)
    monkeypatch.setattr(tick_islands, "packed_launch", lambda kernel, dim, inputs, device: None)
    controller = IKController(
        ik_service.load_robot(name, collision="ignore"), [link], limits=ControlLimits(acceleration=1.0)
    )
    (island,) = controller._islands.islands
    assert usage(compiled_for(island.kernel, ARCHITECTURE, tmp_path)).registers > 64


def compile_all(folder):
    """Compile all modules; in a process of its own, whose modules are not those of whichever tests ran before."""
    modules = used_modules()
    assert len(modules) > 25
    with code_is_kept():
        for module in modules:
            wp.compile_aot_module(module, arch=ARCHITECTURE, module_dir=folder / module.name, use_ptx=False)
            assert list((folder / module.name).glob("*.cubin")), module.name


def test_all_kernels_compile_for_cuda(tmp_path):
    program = f"import pathlib; from {__name__} import compile_all; compile_all(pathlib.Path({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir())


@pytest.mark.evidence
def test_the_limit_of_clearance_and_what_is_near_compile_for_cuda(tmp_path):
    robot = ik_service.load_robot("panda")
    size = CollisionData(robot.on_device("cpu"), Lanes(1)).size
    for number, kernel in enumerate((keep_kernel(size, robot.joint_dof_count), near_kernel(size))):
        taken = usage(compiled_for(kernel, ARCHITECTURE, tmp_path / str(number)))
        assert 0 < taken.registers <= 255
