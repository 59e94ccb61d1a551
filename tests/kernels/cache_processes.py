"""Programs that solve, each in a process that finds a kernel cache of the test's."""

import json

from tests.kept_code import kept_folder

COUNT = 20
IMPORTS = """
import json, os, pathlib
import numpy as np
import warp as wp
wp.config.log_level = wp.LOG_ERROR
import ik_service
from ik_service.cli.warmup_command import compiled_objects
from tests.kept_code import code_is_kept
"""
PROGRAM = f"""
if os.environ["KEPT"]:
    kept = code_is_kept(lambda: pathlib.Path(os.environ["KEPT"]), kernels=True)
    kept.__enter__()

def counted(action):
    wp.init()
    before = compiled_objects()
    result = action()
    return len(compiled_objects() - before), result

panda = ik_service.load_robot("panda")
joint_q = panda.random_free_joint_q(np.random.default_rng(0), {COUNT})
poses = panda.forward_kinematics(joint_q, ["panda_hand"])
wanted = poses.positions[:, 0], poses.orientations_xyzw[:, 0]

def solve(robot=panda, targets=("panda_hand",), given=wanted, **arguments):
    return ik_service.IKSolver(robot, list(targets), device="cpu").solve(*given, **arguments)

def report(**values):
    print("REPORT" + json.dumps(values), flush=True)
"""
SOLVES = """
compiled, result = counted(solve)
report(compiled=compiled, solved=int(result.success.sum()), joint_q=result.joint_q.tobytes().hex())
"""


class Processes:
    """Runs programs, each in a process that finds a kernel cache."""

    def __init__(self, server):
        self._server = server

    def start(self, code, cache, **environment):
        variables = {"WARP_CACHE_PATH": str(cache), "KEPT": "", "IK_SERVICE_QUIET": "", **environment}
        return self._server.start(PROGRAM + code, variables)

    def finish(self, process):
        return json.loads(self._server.finish(process).partition("REPORT")[2].splitlines()[0])

    def __call__(self, code, cache, **environment):
        """What a program reports; the compiler gives what it gave before."""
        return self.finish(self.start(code, cache, KEPT=str(kept_folder()), **environment))
