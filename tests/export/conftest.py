"""Exports that the tests share, each made once."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ik_service
from ik_service.control import IKController
from ik_service.export import Export, export_solver
from tests.export.c_controller import controller_in_c
from tests.export.c_library import CLibrary
from tests.kept_code import kept_folder

PANDA_COUNT, OTHER_COUNT = 10_000, 500


@dataclass(frozen=True)
class Exported:
    """A solver and a controller, what was exported of them, and that compiled and loaded."""

    solver: ik_service.IKSolver
    controller: IKController
    export: Export
    folder: Path
    linked: CLibrary

    def controller_in_c(self, controller=None):
        """A new controller in C, with the accelerations of one in Python."""
        return controller_in_c(self.linked.linked, self.folder, self.export.prefix, controller or self.controller)

    def targets(self, count, random_seed=1):
        """Random reachable targets: positions and orientations_xyzw, [count, targets, 3 and 4]."""
        robot, links = self.solver.robot, [target.link for target in self.solver.targets]
        poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(random_seed), count), links)
        return poses.positions, poses.orientations_xyzw


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Export a robot by name: panda, dual_panda with two islands, or floating: a free base, a mimic joint."""
    for tool in ("gcc", "g++", "nm"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed, and what is exported has to be compiled.")
    made: dict[str, Exported] = {}
    links = {"panda": ["panda_hand"], "dual_panda": ["left_panda_hand", "right_panda_hand"]}

    def export(name: str) -> Exported:
        if name not in made:
            source, free = ("panda_gripper", True) if name == "floating" else (name, False)
            robot = ik_service.load_robot(source, floating_base=free, collision="ignore")
            targets = links.get(name, ["panda_leftfinger"])
            solver = ik_service.IKSolver(robot, targets, device="cpu", engine="compiled")
            controller = IKController(robot, targets, posture=robot.mid_joint_q if name == "dual_panda" else None)
            count = PANDA_COUNT if name == "panda" else OTHER_COUNT
            done = export_solver(solver, controller=controller, prefix=name, problem_count=count)
            done.write(folder := tmp_path_factory.mktemp(name))
            made[name] = Exported(solver, controller, done, folder, CLibrary(name, folder))
        return made[name]

    return export


@pytest.fixture(scope="session", autouse=True)
def _clang_cache() -> Iterator[None]:
    """Give the Clang of PyPI a place for what it keeps from run to run."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
            patch.setenv(name, str(kept_folder() / f"zig-{metadata.version('ziglang')}"))
        yield


@pytest.fixture(scope="session")
def panda(exported):
    return exported("panda")


ARM = """
  <joint name="{n}_yaw" type="revolute"><parent link="base"/><child link="{n}_1"/><origin xyz="0 {y} 0"/>
    <axis xyz="0 0 1"/><limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
  <joint name="{n}_pitch" type="revolute"><parent link="{n}_1"/><child link="{n}_2"/><origin xyz="0 0 0.2"/>
    <axis xyz="0 1 0"/><limit lower="-1" upper="2" effort="1" velocity="1"/></joint>
  <joint name="{n}_slide" type="prismatic"><parent link="{n}_2"/><child link="{n}_3"/>
    <axis xyz="1 0 0"/><limit lower="0.1" upper="0.5" effort="1" velocity="1"/></joint>
  <joint name="{n}_follow" type="prismatic"><parent link="{n}_3"/><child link="{n}_tip"/>
    <axis xyz="1 0 0"/><limit lower="0" upper="0.3" effort="1" velocity="1"/>
    <mimic joint="{n}_slide" multiplier="0.5"/></joint>
  <link name="{n}_1"/><link name="{n}_2"/><link name="{n}_3"/><link name="{n}_tip"/>
"""
TWO_ARMS = '<robot name="two_arms"><link name="base"/>' + ARM.format(n="a", y="0.3") + ARM.format(n="b", y="-0.3")
