"""Backward passes that several rows share give the Jacobian that a pass for each row gives."""

import numpy as np
import pytest
import warp as wp

from ik_service import SolverOptions
from ik_service.solver.rows.blocks import BatchState, Rows, RowTapes
from ik_service.solver.rows.gradients import disjoint_rows
from objectives import IKJacobianType, IKObjective
from tests.solver.conftest import bare_robot, cpu_solver

COUNT = 5


def jacobian(robot, objective, mode=IKJacobianType.ANALYTIC, *, support=None, probed=True):
    """The Jacobian at random configurations, and whether two rows of a pass have been found to share a DOF."""
    model, index = robot.on_device("cpu"), wp.zeros(COUNT, dtype=wp.int32, device="cpu")
    objective.bind_model(model)
    rows = Rows(model, [], [objective], mode)
    if support is not None:
        rows.set_support(support, np.full(rows.count, probed), np.array([False]))
    rows.bind(COUNT, index)
    poses = BatchState.allocate(model, COUNT, rows.count, index, requires_grad=rows.has_gradients)
    poses.joint_q.assign(robot.random_joint_q(np.random.default_rng(3), COUNT).astype(np.float32))
    tapes = RowTapes(rows, poses)
    rows.compute_residuals(poses, tapes)
    out = wp.zeros((COUNT, rows.count, model.joint_dof_count), dtype=float, device="cpu")
    twists = wp.zeros((COUNT, model.joint_dof_count), dtype=wp.spatial_vector, device="cpu")
    rows.compute_jacobian(poses, twists, out, tapes)
    return out.numpy(), bool(rows.mixed.numpy()[0])


@wp.kernel
def _spring(coordinate: wp.array[wp.int32], joint_q: wp.array2d[float], start_idx: int, residuals: wp.array2d[float]):
    i, row = wp.tid()
    residuals[i, start_idx + row] = 2.0 * joint_q[i, coordinate[row]]


@wp.kernel
def _place(body: int, body_q: wp.array2d[wp.transform], start_idx: int, residuals: wp.array2d[float]):
    i = wp.tid()
    place = wp.transform_get_translation(body_q[i, body])
    for k in range(3):
        residuals[i, start_idx + k] = place[k]


class Springs(IKObjective):
    """Twice the angle of every joint of one DOF, by a kernel."""

    def __init__(self, robot):
        own = robot.dof_coordinate[robot.active_dof]
        self.coordinates = own[own >= 0]

    def residual_dim(self):
        return len(self.coordinates)

    def compute_residuals(self, body_q, joint_q, model, residuals, start_idx, problem_idx):
        inputs = [wp.array(self.coordinates, dtype=wp.int32, device=body_q.device), joint_q, start_idx]
        dim = (body_q.shape[0], self.residual_dim())
        wp.launch(_spring, dim=dim, inputs=inputs, outputs=[residuals], device=body_q.device)


class Place(IKObjective):
    """Where a hand is, whose coordinates follow the same joints."""

    def __init__(self, robot):
        self.body = robot.link_frame("left_grasp")[0]

    def residual_dim(self):
        return 3

    def compute_residuals(self, body_q, joint_q, model, residuals, start_idx, problem_idx):
        inputs = [self.body, body_q, start_idx]
        wp.launch(_place, dim=body_q.shape[0], inputs=inputs, outputs=[residuals], device=body_q.device)


def test_rows_that_share_no_dof_come_together():
    support = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=bool)
    assert disjoint_rows(support, 5) == [[0, 1, 3, 4], [2]]
    assert disjoint_rows(support, 2) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("probed", [True, False])
def test_a_pass_for_all_rows_of_a_posture_gives_the_bytes_of_a_pass_for_each(humanoid, probed):
    expected, _ = jacobian(humanoid, Springs(humanoid))
    found, mixed = jacobian(humanoid, Springs(humanoid), support=(expected != 0.0).any(axis=0), probed=probed)
    assert not mixed
    np.testing.assert_array_equal(found, expected)
    assert (expected == 2.0).sum() == COUNT * expected.shape[1]
    # A support that claims that every row has DOFs of its own: rows of a pass that share a DOF are noticed.
    claimed = np.arange(humanoid.joint_dof_count) % 3 == np.arange(3)[:, None]
    assert jacobian(humanoid, Place(humanoid), support=claimed)[1]


@wp.kernel
def _coupled_late(joint_q: wp.array2d[float], start_idx: int, residuals: wp.array2d[float]):
    i, k = wp.tid()
    value = joint_q[i, k] - 0.3
    if joint_q[i, k] > 0.1 and joint_q[i, k] < 0.6:  # reached on the way; hardly by probes of half ranges around 2 rad
        value += 0.1 * (joint_q[i, (k + 1) % 6] - 0.3)
    residuals[i, start_idx + k] = value


class CoupledLate(IKObjective):
    """Rows that depend on a second joint only where their own is near its goal."""

    def residual_dim(self):
        return 6

    def compute_residuals(self, body_q, joint_q, model, residuals, start_idx, problem_idx):
        dim = (body_q.shape[0], 6)
        wp.launch(_coupled_late, dim=dim, inputs=[joint_q, start_idx], outputs=[residuals], device=body_q.device)


def test_a_solve_that_finds_a_shared_dof_is_done_again_row_by_row(monkeypatch):
    robot, start = bare_robot("ur5e"), np.full((3, 6), 1.0)
    monkeypatch.setattr("ik_service.solver.rows.layout.BEYOND", 0.01)  # probes stay around the middle
    monkeypatch.setattr("ik_service.solver.rows.layout.PROBES", 1)
    options = SolverOptions(seeds=1)
    answers = []
    for _ in range(2):
        solver = cpu_solver(robot, objectives=[CoupledLate()], options=options)
        support = solver._core.layout.support
        support._apart[:] = bool(answers)
        support._rows.set_support(support.dofs, support._probed, support._apart)
        answers.append(solver.solve(problem_count=3, initial_joint_q=start).joint_q)
        assert support._apart.all()
    np.testing.assert_array_equal(*answers)
    np.testing.assert_allclose(answers[0], 0.3, atol=1e-3)
