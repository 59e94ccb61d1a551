"""Compilations of a new user's ten calls: modules and CPU seconds, each call in a fresh process on one cache."""

import re
import tempfile

from benchmarks.problems.compared_robots import FOREIGN, installed
from benchmarks.report import Report
from benchmarks.run import benchmark, fresh
from ik_service.compiler import cpu_target

TIAGO = "tiago_description/robots/tiago_dual.urdf"
CASES = {
    "panda": ("panda", ["panda_hand"]),
    "tiago, both arms": (TIAGO, ["arm_left_7_link", "arm_right_7_link"]),
}
CALLS = {
    "pose": "IKSolver(robot, links).solve(p, q)",
    "position only": "IKSolver(robot, links).solve(p)",
    "free axis": "IKSolver(robot, [Target(link, free=['rz']) for link in links]).solve(p, q)",
    "tolerance": "IKSolver(robot, [Target(link, tolerance=[0, 0, 0, 0.1, 0.1, 0]) for link in links]).solve(p, q)",
    "tool": "IKSolver(robot, [Target(link, offset=[0, 0, 0.1, 0, 0, 0, 1]) for link in links]).solve(p, q)",
    "world": "IKSolver(robot, links).solve(p, q, world=world)",
    "solutions": "IKSolver(robot, links).solve(p, q, options={'solutions': 4})",
    "best_of": "IKSolver(robot, links).solve(p, q, options={'best_of': 'nearest'})",
    "controller": "controller = IKController(robot, links); controller.reset(joint_q[0]); controller.warmup()",
    "posture": "IKSolver(robot, links, objectives=[IKObjectivePosture(robot.mid_joint_q, weight=0.01)]).solve(p, q)",
}
FRESH = """
import json, sys, time
import numpy as np
import warp as wp
wp.config.log_level = wp.LOG_ERROR
from ik_service import IKSolver, Target, load_robot
from ik_service.control import IKController
from ik_service.robots import Box, World
from objectives import IKObjectivePosture
wp.init()
compiled, module = [], wp._src.context.Module
whole = module._compile
def timed(self, *arguments, **options):
    start = time.thread_time()
    done = whole(self, *arguments, **options)
    if done:
        compiled.append([self.name, time.thread_time() - start])
    return done
module._compile = timed
name, call, *links = sys.argv[1:]
robot = load_robot(name)
joint_q = robot.random_free_joint_q(np.random.default_rng(0), 5)
poses = robot.forward_kinematics(joint_q, links)
p, q = poses.positions, poses.orientations_xyzw
world = World({"b": Box((0.1, 0.1, 0.1), (2, 2, 2, 0, 0, 0, 1))}) if robot.collision_model else None
exec(call)
print(json.dumps(compiled))
"""


def short_name(module: str) -> str:
    """Return the name of a module without what tells robots apart."""
    name = module.replace("ik_service_", "").rpartition("__locals__")[2]
    return re.sub("_[0-9a-f]{8}$", "", name)


def show(report: Report) -> None:
    """Measure and print a table for each robot."""
    for title, (source, links) in CASES.items():
        robot = str(installed(FOREIGN, source)) if "/" in source else source
        report.section(title, f"Targets: {', '.join(links)}.", "call", "modules", "CPU time [s]", "which")
        total = []
        with tempfile.TemporaryDirectory() as cache:
            for label, call in CALLS.items():
                found = fresh(FRESH, robot, call, *links, cache=cache)  # modules with CPU seconds
                total += found
                which = ", ".join(f"{short_name(name)} {seconds:.2f}" for name, seconds in found)
                report.row(label, len(found), f"{sum(seconds for _, seconds in found):.2f}", which)
        report.row("all", len(total), f"{sum(seconds for _, seconds in total):.2f}", "")


if __name__ == "__main__":
    benchmark(
        "Compilations of ten calls",
        show,
        "CPU seconds of compiling, each call in a fresh process, in this order and with one cache, empty at first; "
        f"{cpu_target().name}. A robot without a collision model has no world.",
        core=None,
    )
