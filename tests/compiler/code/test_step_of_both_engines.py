"""One step of the staged engine, and of the compiled one in float32, equals that of the generated line in float64.

From equal configurations, damping and active sets, as a solve of one seed and one iteration takes it.
"""

from dataclasses import replace

import numpy as np
import pytest

from ik_service import IKSolver, SolverOptions
from ik_service.compiler import FIXED, IterationSource, Lanes
from ik_service.solver.given.targets import ROTATION_LENGTH
from ik_service.solver.lm.damping import DAMPING, DAMPING_MIN
from objectives import IKObjectivePose
from tests.compiler import oracles
from tests.compiler.conftest import through_native
from tests.compiler.island_cases import robots
from tests.compiler.oracles import Island, columns
from tests.compiler.reference_iteration import States, held

COUNT = 200
LANES = Lanes(4, "float64")
ROTATIONS = [1.0, 1.0, 1.0, *[ROTATION_LENGTH] * 3]  # weights of a target's rows in the solver
SINGLE = 5e-5  # float32 rounding times the condition of well damped systems, up to a few hundreds
ROUNDINGS = {"staged": float(DAMPING_MIN), "compiled": DAMPING.least * Lanes(1).rounding}
DAMPINGS = {name: replace(DAMPING, least=least / LANES.rounding) for name, least in ROUNDINGS.items()}
DAMPINGS["staged"] = replace(DAMPINGS["staged"], smallest=1.0)
TASKS = {  # links, and the rows of each island
    "panda": (["panda_hand"], [range(6)]),
    "dual": (["left_panda_hand", "right_panda_hand"], [range(6), range(6, 12)]),
    "gripper": (["panda_rightfinger"], [range(6)]),
    "floating": (["d", "f"], [range(12)]),
    "two trees": (["l_tool", "r_tool"], [range(6), range(6, 12)]),
    "locked base": (["d", "f"], [range(12)]),
}


class Task:
    """Starts near reachable targets, some of them on limits, and an island that holds the targets."""

    def __init__(self, name):
        self.links, self.rows = TASKS[name]
        self.robot = robot = robots()[name]
        rng = np.random.default_rng(12)
        goals = robot.random_joint_q(rng, COUNT)
        poses = robot.forward_kinematics(goals, self.links)
        self.positions = poses.positions.astype(np.float32)
        self.orientations = poses.orientations_xyzw.astype(np.float32)
        start = robot.integrate(goals, rng.uniform(-0.3, 0.3, (COUNT, robot.joint_dof_count)))
        own = robot.dof_coordinate[robot.active_dof]
        lower, upper = (x.numpy().astype(float) for x in self._device_limits())
        for a in np.flatnonzero((own >= 0) & np.isfinite(lower) & np.isfinite(upper)):
            on = rng.random(COUNT) < 0.2
            ends = np.where(rng.random(COUNT) < 0.5, lower[a], upper[a])
            start[:, own[a]] = np.where(on, ends, np.clip(start[:, own[a]], lower[a], upper[a]))
        self.start = robot.clamp_joint_q(start).astype(np.float32)
        self.lower, self.upper = lower, upper

    def _device_limits(self):
        model = self.robot.on_device("cpu")
        return model.active_limit_lower, model.active_limit_upper

    def solve(self, engine):
        options = SolverOptions(seeds=1, max_iterations=1)
        solver = IKSolver(self.robot, self.links, device="cpu", engine=engine, options=options)
        result = solver.solve(self.positions, self.orientations, initial_joint_q=self.start)
        assert result.engine == engine
        return result.joint_q.astype(np.float64)

    def island(self, rows):
        """The island of these rows, its program, and lanes at the starts."""
        goals = [self.positions, self.orientations]
        poses = [
            IKObjectivePose(link, *(goal[:, k] for goal in goals), row_weights=ROTATIONS)
            for k, link in enumerate(self.links)
        ]
        case = Island("both engines", self.robot, poses, [oracles.pose] * len(poses), len(poses))
        tree = self.robot.trees.active_treeid
        links = {self.links[row // 6] for row in rows}
        trees = [self.robot.trees.body_treeid[self.robot.link_frame(link)[0]] for link in links]
        program = case.program(dofs=[int(a) for a in np.flatnonzero(np.isin(tree, trees))], rows=rows)
        source = IterationSource(program, LANES, DAMPING)
        states = States.start(case, source, self.start.astype(np.float64))
        inputs = np.stack([case.data(program, problem) for problem in range(COUNT)])
        for k, one in enumerate(program.inputs):
            if one.field == FIXED:
                inputs[:, k] = self.start[:, one.column]
        limits = {"lower": self.lower, "upper": self.upper}
        limits = {name: np.tile(ends[list(program.dofs)], (COUNT, 1)) for name, ends in limits.items()}
        return program, replace(states, inputs=inputs, **limits)


def line_step(program, states, engine):
    """States before and after the first step has been tried; the staged engine steps in the space of the DOFs."""
    source, seen = IterationSource(program, LANES, DAMPINGS[engine], in_dofs=engine == "staged"), []
    states = replace(states, lengths2=np.zeros((len(states.q), len(source.step.lengths2()))))
    for _ in range(2):
        states = States.unpacked(through_native(source.text(), LANES, states.packed(), 100.0)[0], source)
        seen.append(states)
    return seen


@pytest.mark.quick_cases("panda")
@pytest.mark.parametrize("name", TASKS)
def test_a_step_of_either_engine_is_that_of_the_line_in_float64(name):
    task = Task(name)
    answers = {engine: task.solve(engine) for engine in ("staged", "compiled")}
    frozen = 0
    for rows in task.rows:
        program, states = task.island(rows)
        own = columns(task.robot, program)
        for engine, joint_q in answers.items():
            at_start, after = line_step(program, states, engine)
            moved = np.abs(after.q - at_start.q).max(axis=1) > 0.0
            frozen += held(program, at_start, at_start.q, at_start.gradient).sum()
            went = np.abs(joint_q[:, own] - task.start[:, own]).max(axis=1) > 0.0
            assert (went == moved).mean() >= 0.97, engine  # the staged engine refuses steps that gain next to nothing
            both = went & moved
            assert both.sum() > 0.7 * COUNT
            np.testing.assert_allclose(joint_q[both][:, own], after.q[both], rtol=0.0, atol=SINGLE, err_msg=engine)
            assert np.abs(after.q - at_start.q)[moved].max() > 0.2
    assert frozen > 20
