"""The rules between the solver and an objective, pinned by objectives that record every hook."""

import typing

import numpy as np
import pytest
import warp as wp

from ik_service import SolverOptions, load_robot
from objectives import IKJacobianType, IKObjective, IKObjectivePosition, ObjectiveError
from tests.solver.conftest import Reachable, cpu_solver
from tests.solver.quick_objective import QuickObjective

SEEDS, PROBLEMS, CANDIDATES = 3, 2, 2
POINT = (0.3, 0.2, 0.5)


def noted(name):
    """A hook that keeps its arguments."""

    def hook(self, *arguments, **named):
        self.calls.append((name, *arguments, *named.values()))
        getattr(QuickObjective, name)(self, *arguments, **named)

    return hook


class RecordingObjective(QuickObjective):
    """Keeps the name and the arguments of every hook; arrays that may change are kept as copies."""

    def __init__(self, body, points, analytic):
        super().__init__(body, points)
        self.calls, self.analytic = [], analytic

    def supports_analytic(self):
        return self.analytic

    bind_device, bind_problem_index, init_buffers, set_batch_layout = map(
        noted, ("bind_device", "bind_problem_index", "init_buffers", "set_batch_layout")
    )

    def compute_residuals(self, body_q, joint_q, model, residuals, start_idx, problem_idx):
        super().compute_residuals(body_q, joint_q, model, residuals, start_idx, problem_idx)
        shapes = (body_q.shape, joint_q.shape, residuals.shape, problem_idx.shape)
        copies = (body_q.numpy().copy(), joint_q.numpy().copy(), problem_idx.numpy().copy())
        self.calls.append(("compute_residuals", shapes, start_idx, copies))

    def compute_jacobian_analytic(self, body_q, joint_q, model, jacobian, joint_S_s, start_idx):
        assert not jacobian.numpy()[:, start_idx : start_idx + 3].any()  # zeroed by the solver
        shapes = (body_q.shape, joint_q.shape, jacobian.shape, joint_S_s.shape)
        copies = (body_q.numpy().copy(), joint_q.numpy().copy(), self.problem_index.numpy().copy())
        self.calls.append(("compute_jacobian_analytic", shapes, start_idx, copies))
        subspace = joint_S_s.numpy()
        point = body_q.numpy()[:, self.body, :3]
        columns = subspace[..., :3] + np.cross(subspace[..., 3:], point[:, None])
        columns[:, ~self.moves(model)] = 0.0
        jacobian.numpy()[:, start_idx : start_idx + 3] = columns.transpose(0, 2, 1)

    def compute_jacobian_autodiff(self, tape, model, jacobian, start_idx, dq_dof):
        copies = (None, self.calls[-1][3][1], self.problem_index.numpy().copy())
        self.calls.append(("compute_jacobian_autodiff", (tape.outputs[0].shape, dq_dof.shape), start_idx, copies))
        super().compute_jacobian_autodiff(tape, model, jacobian, start_idx, dq_dof)

    def moves(self, model):
        ancestor, start = model.joint_ancestor.numpy(), model.joint_qd_start.numpy()
        moves, joint = np.zeros(model.joint_dof_count, dtype=bool), self.body
        while joint >= 0:
            moves[start[joint] : start[joint + 1]] = True
            joint = ancestor[joint]
        return moves

    def named(self, name):
        return [call for call in self.calls if call[0] == name]


@pytest.fixture
def gripper():
    """A robot with a mimic follower and a locked joint."""
    return load_robot("panda_gripper", collision="ignore", locked={"panda_joint3": 0.4})


def record(robot, mode, analytic):
    finger = robot.link_frame("panda_rightfinger")[0]  # the follower's link
    recorder = RecordingObjective(finger, [POINT, (0.4, -0.1, 0.6)], analytic)
    other = IKObjectivePosition("panda_hand", POINT, weight=0.01)
    solve = {"seeds": SEEDS, "candidates": CANDIDATES, "use_graph": False, "max_iterations": 5}
    solver = cpu_solver(robot, objectives=[other, recorder], options=SolverOptions(jacobian_mode=mode, **solve))
    return recorder, solver.solve(problem_count=PROBLEMS)


@pytest.mark.parametrize(
    ("mode", "analytic"), [("analytic", True), ("analytic", False), ("autodiff", True), ("mixed", True)]
)
def test_hooks_come_in_order_with_the_promised_shapes(gripper, mode, analytic):
    recorder, result = record(gripper, mode, analytic)
    taped = mode == "autodiff" or not analytic
    names = [call[0] for call in recorder.calls]
    assert names[:4] == ["set_batch_layout", "bind_device", "bind_problem_index", "init_buffers"]
    total, offset, n_batch = recorder.named("set_batch_layout")[0][1:]
    assert (total, offset) == (6, 3)
    assert n_batch >= SEEDS * PROBLEMS
    assert recorder.named("init_buffers")[0][2] is (IKJacobianType.AUTODIFF if taped else IKJacobianType.ANALYTIC)
    bodies, coordinates, dofs = gripper.body_count, gripper.joint_coord_count, gripper.joint_dof_count
    assert (coordinates, dofs) == (9, 9)  # the full model: follower and locked joint included
    residual_shapes = {call[1] for call in recorder.named("compute_residuals")}
    sizes = {n_batch, n_batch * CANDIDATES}
    assert residual_shapes == {((n, bodies), (n, coordinates), (n, total), (n,)) for n in sizes}
    shapes = {
        "compute_jacobian_analytic": (
            (n_batch, bodies),
            (n_batch, coordinates),
            (n_batch, total, dofs),
            (n_batch, dofs),
        ),
        "compute_jacobian_autodiff": ((n_batch * total,), (n_batch, dofs)),
    }
    del shapes[f"compute_jacobian_{'analytic' if taped else 'autodiff'}"]
    assert {call[0]: call[1] for call in recorder.calls if "jacobian" in call[0]} == shapes
    assert {call[2] for call in recorder.calls if call[0].startswith("compute")} == {3}
    assert len(result) == PROBLEMS


@pytest.mark.parametrize(("mode", "analytic"), [("analytic", True), ("autodiff", False)])
def test_residuals_were_computed_where_the_jacobian_is_asked_for(gripper, mode, analytic):
    recorder, _ = record(gripper, mode, analytic)
    n_batch = recorder.named("set_batch_layout")[0][3]
    checked = 0
    last = None
    for call in recorder.calls:
        if call[0] == "compute_residuals" and call[1][1][0] == n_batch:
            last = call
        elif call[0].startswith("compute_jacobian"):
            np.testing.assert_array_equal(call[3][1], last[3][1])  # the same configurations
            np.testing.assert_array_equal(call[3][2], last[3][2])  # of the same problems
            if call[3][0] is not None:
                np.testing.assert_array_equal(call[3][0], last[3][0])  # and the poses belong to them
            checked += 1
    assert checked >= 5


@pytest.mark.parametrize("mode", ["analytic", "autodiff", "mixed"])
def test_a_quick_objective_works_in_every_mode(panda, mode):
    quick = QuickObjective(panda.link_frame("panda_hand")[0], [POINT])
    options = SolverOptions(jacobian_mode=mode)
    result = cpu_solver(panda, objectives=[quick], options=options).solve(problem_count=1)
    wrist = panda.body_poses(result.joint_q)[0, quick.body, :3]
    assert result.success.all()
    np.testing.assert_allclose(wrist, POINT, atol=1e-5)


class NothingToSay(QuickObjective):
    def residual_dim(self):
        return 0

    def compute_residuals(self, body_q, joint_q, model, residuals, start_idx, problem_idx):
        pass


def test_an_objective_without_rows_changes_nothing_and_warns_of_nothing(panda):
    """Warnings are errors here."""
    start = (panda.mid_joint_q[None] + 0.1).astype(np.float32)
    solver = cpu_solver(panda, objectives=[NothingToSay(0, [POINT])])
    result = solver.solve(problem_count=1, initial_joint_q=start)
    np.testing.assert_array_equal(result.joint_q, start)
    assert result.success.all()


class Claims(QuickObjective):
    def supports_analytic(self):
        return True


def test_what_a_solver_cannot_take_is_an_error(panda):
    objective = IKObjectivePosition("panda_hand", POINT)
    keep = cpu_solver(panda, objectives=[objective])
    for wrong, words in (
        (Claims(6, [POINT]), r"Claims.*compute_jacobian_analytic"),
        (objective, "bound to a solver already"),
        ("panda_hand", r"str is not an objective.*residual_dim"),
    ):
        with pytest.raises(ObjectiveError, match=words):
            cpu_solver(panda, objectives=[wrong])
    assert keep.solve(problem_count=1).success.all()


class Wrong(RecordingObjective):
    def compute_jacobian_analytic(self, body_q, joint_q, model, jacobian, joint_S_s, start_idx):
        super().compute_jacobian_analytic(body_q, joint_q, model, jacobian, joint_S_s, start_idx)
        jacobian.numpy()[:, start_idx + 1, 2] += 0.5


def test_check_jacobians_names_the_wrong_entry(panda):
    options, hand = SolverOptions(check_jacobians=True, use_graph=False), panda.link_frame("panda_hand")[0]
    wrong, right = (
        cpu_solver(panda, objectives=[kind(hand, [POINT], analytic=True)], options=options)
        for kind in (Wrong, RecordingObjective)
    )
    with pytest.raises(ObjectiveError, match=r"Wrong \(objective 0\) is wrong in row 1, DOF 'panda_joint3'"):
        wrong.solve(problem_count=1)
    assert right.solve(problem_count=1).success.all()


class OnTheHost(IKObjective):
    """A joint at -1 rad, computed in NumPy by either hook, or by one of them."""

    def __init__(self, hook):
        super().__init__()
        self.hook = hook

    def residual_dim(self):
        return 1

    def supports_analytic(self):
        return True

    def compute_residuals(self, body_q, joint_q, model, residuals, start_idx, problem_idx):
        if self.hook == "jacobian":
            wp.launch(_row_of_joint, residuals.shape[0], [joint_q, start_idx], [residuals], device=residuals.device)
            return
        rows = residuals.numpy()
        rows[:, start_idx] = joint_q.numpy()[:, 3] + 1.0
        residuals.assign(rows)

    def compute_jacobian_analytic(self, body_q, joint_q, model, jacobian, joint_S_s, start_idx):
        if self.hook == "residuals":
            wp.launch(_unit_slope, jacobian.shape[0], [start_idx], [jacobian], device=jacobian.device)
            return
        rows = jacobian.numpy()
        rows[:, start_idx, 3] = 1.0
        jacobian.assign(rows)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _row_of_joint(joint_q: wp.array2d[float], start_idx: int, residuals_out: wp.array2d[float]):
    i = wp.tid()
    residuals_out[i, start_idx] = joint_q[i, 3] + 1.0


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _unit_slope(start_idx: int, jacobian_out: wp.array3d[float]):
    jacobian_out[wp.tid(), start_idx, 3] = 1.0


def solver_of(panda, objective, links=()):
    return cpu_solver(panda, links, objectives=[objective], options=SolverOptions(jacobian_mode="analytic"))


@pytest.mark.parametrize("target", [False, True])
def test_an_objective_that_computes_on_the_host_is_solved_and_named(panda, caplog, target):
    solver, rng = solver_of(panda, OnTheHost("both"), ["panda_hand"] if target else []), np.random.default_rng(0)
    poses, start = Reachable.draw(panda, ["panda_hand"], 3), panda.random_joint_q(rng, 3)
    given, count = (poses.targets, {}) if target else ((), {"problem_count": 3, "initial_joint_q": start})
    for _ in range(2):
        result = solver.solve(*given, **count)
        assert result.success.all()
        rows = result.joint_q[:, 3].astype(np.float64) + 1.0
        if not target:
            assert np.abs(rows).max() < 1e-3
            np.testing.assert_allclose(result.cost, 0.5 * rows**2, atol=1e-9)
    (told,) = [record.getMessage() for record in caplog.records if "computes on the host" in record.getMessage()]
    assert f"Objective {int(target)}, OnTheHost, " in told


class MostlyZeroOnTheHost(OnTheHost):
    """A joint above -0.1 rad: 0, and with no slope, in nearly all of its range of [-3.07, -0.07] rad."""

    def compute_residuals(self, body_q, joint_q, model, residuals, start_idx, problem_idx):
        rows = residuals.numpy()
        rows[:, start_idx] = np.maximum(joint_q.numpy()[:, 3] + 0.1, 0.0)
        residuals.assign(rows)

    def compute_jacobian_analytic(self, body_q, joint_q, model, jacobian, joint_S_s, start_idx):
        rows = jacobian.numpy()
        rows[:, start_idx, 3] = joint_q.numpy()[:, 3] > -0.1
        jacobian.assign(rows)


def test_rows_on_the_host_that_are_mostly_zero_are_found_and_told_once(panda, caplog):
    solver, start = solver_of(panda, MostlyZeroOnTheHost("both")), np.tile(panda.mid_joint_q, (64, 1))
    for count in (1, 64):  # batches of other sizes
        start[:count, 3] = -0.08
        result = solver.solve(problem_count=count, initial_joint_q=start[:count])
        assert result.success.all()
        assert (result.joint_q[:, 3] < -0.0999).all()
    assert len(caplog.records) == 1


class Recorded(OnTheHost):
    def compute_jacobian_analytic(self, body_q, joint_q, model, *others):
        assert model.joint_limit_lower.numpy().size  # constants of the robot may be read on the host
        OnTheHost.compute_jacobian_analytic(OnTheHost("residuals"), body_q, joint_q, model, *others)


def test_an_objective_of_kernels_is_recorded_and_residuals_on_the_host_beside_its_jacobian_are_found(panda, caplog):
    solvers = [solver_of(panda, objective) for objective in (Recorded("jacobian"), OnTheHost("residuals"))]
    for solver, said in zip(solvers, ("", "OnTheHost"), strict=True):
        start = panda.random_joint_q(np.random.default_rng(1), 2)
        result = solver.solve(problem_count=2, initial_joint_q=start)
        np.testing.assert_allclose(result.joint_q[:, 3], -1.0, atol=1e-3)
        assert said in caplog.text
        assert (caplog.records != []) == (said != "")
