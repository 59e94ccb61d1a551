"""`ik-service warmup`: fill the kernel cache, so the first solve of a later process compiles nothing.

For the device at hand by a solve; for named GPU architectures by compilation only, without a GPU.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import warp as wp

from ik_service.cli.console import message_console, output_console, print_json, progress_bar
from ik_service.compiler import cpu_target
from ik_service.errors import EngineError
from ik_service.gpu_kernels import compile_for_gpus, gpu_modules
from ik_service.ik_solver import IKSolver
from ik_service.kernels import kernel_cache
from ik_service.mechanism.names import leaf_links
from ik_service.robots import RobotModel, builtin_robot_names, load_robot
from ik_service.service.pool.kernel_marks import mark_compiled
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.service.warm_up import first_request
from ik_service.solver.given.options import SolverOptions
from objectives.errors import InputError

OBJECT_SUFFIXES = (".o", ".cubin", ".ptx")  # of compiled code in the cache


@dataclass(frozen=True)
class WarmUpReport:
    """Report on compilation for pose targets of a robot's links."""

    robot: str  # name of the robot
    links: tuple[str, ...]  # links with a pose target each, solved together
    engine: str  # engine of the solve
    device: str  # device of the kernels
    compiled: int  # number of compiled kernel modules; other modules were in the cache
    seconds: float  # time, including loading of the robot and a solve [s]


@dataclass(frozen=True)
class WarmUpJob:
    """The kinds of targets to compile for."""

    # built-in names or paths; empty for all built-in robots, for GPU architectures only robots without
    # constraints: code for each rod of a mechanism would fill an image
    names: Sequence[str] = ()
    # links with pose targets together; empty for every leaf link alone, then all together. For GPU architectures
    # without names: the last leaf link, then all together.
    links: Sequence[str] = ()
    device: str = "auto"  # device to compile for
    architectures: Sequence[int] = ()  # GPU architectures to compile for instead, such as 90; no such GPU is needed
    position_only: bool = False  # whether targets are positions without orientations
    float64: bool = False  # whether to compile also the kernels of precision="float64", best_of and solutions


def print_warm_up(job: WarmUpJob, *, as_json: bool) -> None:
    """Fill the cache and print the compiled modules; errors as in `warm_up`."""
    done = []
    for warmed in warm_up(job):
        done.append(warmed)
        if not as_json:
            work = "nothing to compile" if warmed.compiled == 0 else f"{warmed.compiled} compiled"
            where = f"{warmed.engine} engine, {warmed.device}"
            line = f"{warmed.robot} {', '.join(warmed.links)}: {work}, {warmed.seconds:.2f} s ({where})"
            output_console().print(line, markup=False, soft_wrap=True)
    folder, target = str(kernel_cache.folder()), cpu_target().name
    if as_json:
        report = {"cache": folder, "cpu_target": target, "robots": [asdict(warmed) for warmed in done]}
        print_json(report)
    else:
        message_console().print(f"The cache is {folder}; code for CPUs is {target}.", markup=False)


def warm_up(job: WarmUpJob) -> Iterator[WarmUpReport]:
    """Fill the cache, for one robot and set of links at a time.

    InputError for an unknown robot, link, device or architecture; KernelCacheError if the cache cannot be written.
    """
    unknown = sorted(set(job.architectures) - set(wp.get_cuda_supported_archs()))
    if unknown:
        allowed = ", ".join(map(str, wp.get_cuda_supported_archs()))
        raise InputError(f"Architecture {unknown[0]} is not known. Allowed: {allowed}.")
    names = job.names or builtin_robot_names()
    for done, name in enumerate(names):
        robot = load_robot(name)
        if job.architectures and not job.names and robot.every_constraint:
            continue
        sets = link_sets(robot, job.links)
        for together in sets[-2:] if job.architectures and not job.names else sets:
            start = time.perf_counter()
            fill = _compile_for_gpus if job.architectures else _solve_once
            with progress_bar(f"{robot.name} {', '.join(together)}", len(names)) as bar:
                bar(completed=done)
                engine, device, compiled = fill(robot, together, job)
            yield WarmUpReport(robot.name, together, engine, device, compiled, time.perf_counter() - start)


def link_sets(robot: RobotModel, links: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the sets of links to solve for: the given links together, or each leaf link alone, then all together."""
    if links:
        return [tuple(links)]
    leaves = leaf_links(robot)
    alone: list[tuple[str, ...]] = [(link,) for link in leaves]
    return [*alone, tuple(leaves)] if len(leaves) > 1 else alone


def compiled_objects() -> set[Path]:
    """Return the files with compiled code in the cache."""
    found = kernel_cache.entries(kernel_cache.folder())
    return {Path(entry.path) for entry in found if entry.name.endswith(OBJECT_SUFFIXES)}


def folders_of_this_process() -> set[str]:
    """Return the cache folders of modules loaded in this process; other processes may fill the cache meanwhile."""
    modules = list(wp._src.context.user_modules.values())
    return {module.get_module_identifier(block_dim=block) for module in modules for _, block in list(module.execs)}


def _solve_once(robot: RobotModel, links: Sequence[str], job: WarmUpJob) -> tuple[str, str, int]:
    """Solve on the device; return engine, device, and how many modules were compiled."""
    solver = IKSolver(robot, links, device=job.device)
    before = compiled_objects()
    request = request_of(robot, links, job)
    options = None if solver.engine == "staged" else request.options
    solver.solve([*request.batch.positions], [*request.batch.orientations_xyzw], options=options)
    _mark_compiled(robot, links, job)
    new = {path for path in compiled_objects() - before if path.parent.name in folders_of_this_process()}
    return solver.engine, str(solver.device), len(new)


def _compile_for_gpus(robot: RobotModel, links: Sequence[str], job: WarmUpJob) -> tuple[str, str, int]:
    """Compile for the architectures; kernels of the staged engine need a machine with a GPU."""
    architectures = ", ".join(f"sm_{number}" for number in job.architectures)
    solver = IKSolver(robot, links, device="cpu", engine="compiled")
    try:
        modules = gpu_modules(solver, orientations=not job.position_only, float64_finish=job.float64)
    except EngineError:
        return "staged", architectures, 0
    compiled = len(compile_for_gpus(modules, job.architectures))
    _mark_compiled(robot, links, job)
    return "compiled", architectures, compiled


def request_of(robot: RobotModel, links: Sequence[str], job: WarmUpJob) -> SolveRequest:
    """Return the problem to solve for a set of links."""
    options = SolverOptions(precision="float64" if job.float64 else "float32")
    return first_request(robot, links, orientations=not job.position_only, options=options)


def _mark_compiled(robot: RobotModel, links: Sequence[str], job: WarmUpJob) -> None:
    """Mark compiled code, so services load the code at once; with float64, mark the float32 code too."""
    for one in (job, replace(job, float64=False)) if job.float64 else (job,):
        mark_compiled(robot, request_of(robot, links, one), job.device)
