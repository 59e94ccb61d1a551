"""The least that needs all kernels of a request: it is small, and after it a solve of the whole loads nothing new."""

from dataclasses import replace

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.robots import LoopConstraint
from ik_service.service.queue.objective_data import ObjectiveData
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.solver.candidates import Choice, Groups, Via
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from objectives import IKObjectivePosture
from tests.fork_server import fork_server
from tests.service.pool.conftest import chain, numbered

COUNT = 200
HANDS = ["left_panda_hand", "right_panda_hand"]
STAGED_DOFS = 36  # of a chain for which 200 entries are too few
IMPORTS = """
import os
from dataclasses import replace
import numpy as np
import warp as wp
from ik_service.service.pool.builder_process import need_kernels
from ik_service.service.pool.solver_cache import SolverCache
from ik_service.solver.compiled.island_launches import PacketLaunches
from tests.service.pool.requests.test_samples import KINDS
PacketLaunches.step_entries_max = 200  # so that the staged engine has something to do
"""
PROGRAM = """
def loaded():
    modules = list(wp._src.context.user_modules.values())
    return {module.get_module_identifier(block_dim=block) for module in modules for _, block in list(module.execs)}

robot, request = KINDS[os.environ["KIND"]]()
wp.config.log_level = wp.LOG_WARNING
sample = request.sample()
assert sample.problem_count <= 4
start = np.tile(robot.mid_joint_q, (sample.problem_count, 1))  # alike, by its key
sample = replace(sample, batch=sample.batch._replace(start=start))
for one in sample.solves:
    need_kernels(robot, one, "cpu")
before, cache = loaded(), SolverCache("cpu")
if request.choice is None:
    assert len(cache.solve(robot, request).success) == request.problem_count
else:
    assert cache.solve_together(robot, [request]).success.any()
print(len(before), *sorted(loaded() - before))
"""


def test_a_sample_is_one_attempt_of_one_iteration():
    sample = numbered(0, 5000, seeds=1024).sample()
    assert (sample.problem_count, sample.options.seeds, sample.options.max_iterations) == (1, 1, 1)
    options = SolverOptions(seeds=1000, best_of="cost", solutions=8, random_seed=3)
    sample = replace(numbered(0, 3), options=options).sample()
    assert (sample.options.seeds, sample.options.best_of, sample.options.solutions) == (1, "cost", 2)


def test_a_sample_has_a_problem_of_each_pattern_of_weights():
    weights = np.ones((1000, 6))
    weights[500:, 0] = 0.0
    weights[900:, 1] = 0.0
    weights[900:, 2] = 0.5
    sample = numbered(0, 1000, weights=weights).sample()
    assert sample.batch.positions[0][:, 0].tolist() == [0.0, 500.0, 900.0]
    assert sample.targets[0].row_weights.tolist() == weights[[0, 500, 900]].tolist()


@pytest.fixture(scope="module")
def processes():
    with fork_server(IMPORTS) as server:
        yield server


def of_poses(robot, links, *, orientations=True, start=False, **options):
    poses = robot.forward_kinematics(robot.random_free_joint_q(np.random.default_rng(0), COUNT), links=links)
    positions, turned = (list(array.swapaxes(0, 1)) for array in (poses.positions, poses.orientations_xyzw))
    arrays = Batch.of(positions, turned if orientations else None)
    given = np.tile(robot.mid_joint_q, (COUNT, 1)) if start else None
    return robot, SolveRequest(tuple(map(Target, links)), arrays._replace(start=given), SolverOptions(**options))


def of_panda(**changes):
    return of_poses(load_robot("panda"), ["panda_hand"], **changes)


def with_patterns():
    robot, request = of_panda()
    weights = np.ones((COUNT, 6))
    weights[COUNT // 2 :, 5] = 0.0
    weights[COUNT // 4 :, 3] = 0.0
    return robot, replace(request, targets=(replace(request.targets[0], row_weights=weights),))


def two_arms():
    """Each arm is an island of its own, and for some problems only one of them is wanted."""
    robot = load_robot("dual_panda")
    _, request = of_poses(robot, HANDS)
    weights = np.ones((COUNT, 6))
    weights[COUNT // 2 :] = 0.0
    return robot, replace(request, targets=(replace(request.targets[0], row_weights=weights), request.targets[1]))


def welded():
    """Arms that hold one object, of which one has a target."""
    loop = LoopConstraint("object", "weld", *HANDS, reference_offset=(0, 0, 0.3, 1, 0, 0, 0))
    return of_poses(load_robot("dual_panda").with_loops([loop]), HANDS[:1])


def of_posture(request, robot, weights):
    data = {"joint_q_reference": np.asarray(robot.mid_joint_q, float), "row_weights": weights}
    return robot, replace(request, objectives=(ObjectiveData("posture", IKObjectivePosture, (), data),))


def with_objectives():
    robot, request = of_panda(orientations=False, seeds=8)
    weights = np.full((COUNT, 7), 0.01)
    weights[COUNT // 2 :, 6] = 0.0
    return of_posture(request, robot, weights)


def posture_in_contact():
    """A posture that leads the arm into itself, in problems of one request and of 1500 that were tried."""
    robot = load_robot("panda")
    joint_q = robot.random_free_joint_q(np.random.default_rng(0), 1500)[[919, 1093, 1275]]
    poses = robot.forward_kinematics(joint_q, links=["panda_hand"])
    arrays = Batch.of([poses.positions[:, 0]], [poses.orientations_xyzw[:, 0]])
    return of_posture(SolveRequest((Target("panda_hand"),), arrays), robot, np.ones(7))


def staged():
    return of_poses(chain(STAGED_DOFS), [f"l{STAGED_DOFS}"], seeds=2, max_iterations=5)


def choice():
    """Candidates of a criterion that needs several solves of each, with second poses of other rows."""
    robot, request = of_panda(start=True)
    second = Via(Batch.of(request.batch.positions), 1.0)
    groups = Groups(np.arange(COUNT) // 20, COUNT // 20, np.zeros(COUNT))
    return robot, replace(request, choice=Choice(groups, "manipulability", second, None))


KINDS = {
    "choice": choice,
    "pose": of_panda,
    "position": lambda: of_panda(orientations=False, start=True),
    "best_of": lambda: of_panda(best_of="nearest", seeds=8),
    "solutions": lambda: of_panda(solutions=8, seeds=16),
    "float64": lambda: of_panda(precision="float64"),
    "patterns": with_patterns,
    "two_arms": two_arms,
    "touching": lambda: of_poses(load_robot("dual_panda"), HANDS),  # first solutions touch for some problems
    "welded": welded,
    "derivatives": lambda: of_panda(sensitivity="target"),
    "objectives": with_objectives,
    "posture_in_contact": posture_in_contact,
    "staged": staged,
}


@pytest.mark.evidence_cases("objectives", "patterns", "posture_in_contact", "welded")
@pytest.mark.parametrize("kind", KINDS)
def test_after_its_sample_a_request_needs_no_other_kernels(processes, kind):
    before, *new = processes.finish(processes.start(PROGRAM, {"KIND": kind})).split()
    assert int(before) >= 2
    assert not new
