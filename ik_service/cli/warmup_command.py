"""`ik-service warmup`: fill the kernel cache, so that the first solve of a later process compiles nothing."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import orjson
import warp as wp

from ik_service.api.robot_schema import leaf_links
from ik_service.cli.console import message_console, output_console
from ik_service.compiler import cpu_target
from ik_service.robots import RobotModel, builtin_robot_names, load_robot
from ik_service.solver import IKSolver

OBJECT_SUFFIXES = (".o", ".cubin", ".ptx")  # of compiled code in the cache


@dataclass(frozen=True)
class Warmed:
    """What was done for pose targets of a robot's links.

    Attributes:
        robot: Name of the robot.
        links: Links with a pose target each, solved together.
        engine: Engine that solves them.
        device: Where.
        compiled: Modules of kernels that were compiled; the others were there already.
        seconds: Time it took, with the reading of the robot and a solve [s].
    """

    robot: str
    links: tuple[str, ...]
    engine: str
    device: str
    compiled: int
    seconds: float


def print_warm_up(names: Sequence[str], links: Sequence[str], device: str, *, as_json: bool) -> None:
    """Fill the cache and print what was compiled.

    Args:
        names: Built-in names or paths; none takes all built-in robots.
        links: Links that have pose targets together; none takes every leaf link alone, then all together.
        device: Device to compile for.
        as_json: Whether to print JSON.

    Raises:
        InputError: A robot, a link or the device is not there.
        KernelCacheError: The cache cannot be written.
    """
    done = []
    for warmed in warm_up(names, links, device):
        done.append(warmed)
        if not as_json:
            told = "nothing to compile" if warmed.compiled == 0 else f"{warmed.compiled} compiled"
            where = f"{warmed.engine} engine, {warmed.device}"
            line = f"{warmed.robot} {', '.join(warmed.links)}: {told}, {warmed.seconds:.2f} s ({where})"
            output_console().print(line, markup=False, soft_wrap=True)
    folder, target = str(wp.config.kernel_cache_dir), cpu_target().name
    if as_json:
        report = {"cache": folder, "cpu_target": target, "robots": [asdict(warmed) for warmed in done]}
        output_console().out(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode(), highlight=False)
    else:
        message_console().print(f"The cache is {folder}; code for CPUs is {target}.", markup=False)


def warm_up(names: Sequence[str], links: Sequence[str], device: str) -> Iterator[Warmed]:
    """Fill the cache, a robot and a set of links at a time.

    Args:
        names: Built-in names or paths; none takes all built-in robots.
        links: Links that have pose targets together; none takes every leaf link alone, then all together.
        device: Device to compile for.

    Raises:
        InputError: A robot, a link or the device is not there.
        KernelCacheError: The cache cannot be written.
    """
    for name in names or builtin_robot_names():
        robot = load_robot(name)
        for together in link_sets(robot, links):
            start = time.perf_counter()
            solver = IKSolver(robot, together, device=device)
            before = compiled_objects()
            _solve_once(solver, robot, together)
            count, seconds = len(compiled_objects() - before), time.perf_counter() - start
            yield Warmed(robot.name, together, solver.engine, str(solver.device), count, seconds)


def link_sets(robot: RobotModel, links: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the sets of links to solve for: those given together, or each leaf link alone, then all together."""
    if links:
        return [tuple(links)]
    leaves = leaf_links(robot)
    alone: list[tuple[str, ...]] = [(link,) for link in leaves]
    return [*alone, tuple(leaves)] if len(leaves) > 1 else alone


def compiled_objects() -> set[Path]:
    """Return the files with compiled code in the cache."""
    folder = Path(str(wp.config.kernel_cache_dir))
    return {path for path in folder.glob("*/*") if path.suffix in OBJECT_SUFFIXES}


def _solve_once(solver: IKSolver, robot: RobotModel, links: Sequence[str]) -> None:
    poses = robot.forward_kinematics(np.asarray(robot.mid_joint_q)[None], list(links))
    solver.solve(poses.positions, poses.orientations_xyzw)
