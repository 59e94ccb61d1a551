"""The contract of the base class: hooks, autodiff without further work, binding, and what is refused."""

import gc
from dataclasses import replace

import numpy as np
import pytest
import warp as wp

import objectives
from ik_service import IKSolver, load_robot
from objectives import IKJacobianType, IKObjective, IKObjectivePose, InputError, ObjectiveError, UnknownNameError
from objectives.expression.kernels import residual_kernel
from tests.objectives.conftest import GUARD, scene
from tests.objectives.objectives_of_tests import Functions, Height

ROUNDING = 1e-5  # entries are of the size of 1
PROBLEM_IDX = [1, 0, 1]
TARGET = [0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 1.0]


class Owner:
    """Something that can be weakly referenced."""


class ReadsBeyond(Functions):
    def stated_elements(self, model):
        ((group, elements),) = super().stated_elements(model)
        return [(group, [replace(one, data_columns=(1,)) for one in elements])]


class ClaimsAnalytic(Height):
    def supports_analytic(self):
        return True


def configurations(robot, count=3):
    return robot.random_joint_q(np.random.default_rng(1), count)


@pytest.fixture
def placed(panda, workplace):
    return lambda objective: workplace(panda, objective, configurations(panda), PROBLEM_IDX)


def heights():
    return Height(5, [0.1, 0.2])


def pose_objective(link="panda_hand", problems=2):
    rng = np.random.default_rng(2)
    q = rng.normal(size=(problems, 4))
    return IKObjectivePose(link, rng.normal(size=(problems, 3)), q / np.linalg.norm(q, axis=1, keepdims=True))


class TestAutodiff:
    def test_needs_nothing_but_residuals(self, panda, placed):
        place = placed(heights())
        jacobian = place.autodiff()[:, GUARD:-GUARD]
        q, twists = place.joint_q.astype(float), panda.motion_subspace(place.joint_q)
        position = panda.body_poses(place.joint_q)[:, 5, :3]
        expected = np.zeros_like(jacobian)
        velocity = twists[..., :3] + np.cross(twists[..., 3:], position[:, None, :])
        expected[:, 0, :6] = velocity[:, :6, 2]
        expected[:, 1, 0], expected[:, 1, 1] = q[:, 1], q[:, 0]
        assert np.abs(expected).max(axis=(0, 2)).min() > 0.1
        np.testing.assert_allclose(jacobian, expected, atol=ROUNDING)

    @pytest.mark.parametrize("make", [pose_objective, heights])
    def test_can_be_recorded_in_a_graph_and_repeats_for_another_batch(self, placed, make):
        place = placed(make())
        eager = place.autodiff()
        assert np.abs(eager[:, GUARD:-GUARD]).max() > 0.1
        assert (place.autodiff(graph=True) == eager).all()
        place.joint_q = place.joint_q[:2]
        assert (place.autodiff() == eager[:2]).all()

    def test_without_layout_is_a_clear_error(self, panda):
        with pytest.raises(ObjectiveError, match="set_batch_layout"):
            Height(5, [0.1]).init_buffers(panda.on_device("cpu"), IKJacobianType.AUTODIFF)

    def test_of_a_tape_without_dq_is_a_clear_error(self, placed):
        place = placed(heights())
        place.bind(IKJacobianType.AUTODIFF)
        joint_q = wp.array(place.joint_q, dtype=float, device="cpu", requires_grad=True)
        tape = wp.Tape()
        with tape:
            residuals = place.compute_residuals(joint_q, requires_grad=True)
        tape.outputs = [residuals.flatten()]
        elsewhere = wp.zeros((3, 7), dtype=float, device="cpu", requires_grad=True)
        with pytest.raises(ObjectiveError, match="no gradient"):
            place.objective.compute_jacobian_autodiff(tape, place.model, place.empty_jacobian(), GUARD, elsewhere)


class TestBinding:
    def test_to_a_second_solver_is_refused_but_for_an_unbound_copy(self, placed):
        objective = pose_objective()
        place = placed(objective)
        objective.bind_solver(place)  # again the same: nothing happens
        with pytest.raises(ObjectiveError, match="bound to a solver already"):
            placed(objective)
        assert (placed(objective.unbound_copy()).residuals() == place.residuals()).all()

    def test_to_another_robot_leaves_nothing_of_the_first(self, workplace, placed):
        objective, other = objectives.IKObjectiveJointLimit(), load_robot("ur5e", collision="ignore")
        first = placed(objective)
        assert first.residuals().shape[1] == 7 + 2 * GUARD
        objective.release_solver(first)
        beyond = np.full((3, 6), 7.0)
        again = workplace(other, objective, beyond, PROBLEM_IDX).residuals()
        expected = workplace(other, objectives.IKObjectiveJointLimit(), beyond, PROBLEM_IDX).residuals()
        assert expected[:, GUARD:-GUARD].all()
        assert (again == expected).all()

    def test_finds_elements_that_read_beyond_their_data(self, panda):
        words = "ReadsBeyond: an element reads columns 1 to 1 of 'shift', which has 0"
        with pytest.raises(ObjectiveError, match=words):
            IKSolver(panda, objectives=[ReadsBeyond()], device="cpu")

    def test_is_released_by_its_own_solver_alone(self):
        objective, owner, other = pose_objective(), Owner(), Owner()
        objective.bind_solver(owner)
        objective.release_solver(other)
        with pytest.raises(ObjectiveError, match="bound to a solver already"):
            objective.bind_solver(other)
        objective.release_solver(owner)
        objective.release_solver(owner)  # again the same: nothing happens
        objective.bind_solver(other)

    def test_to_a_solver_that_could_not_be_made_or_is_gone_ends(self, panda):
        objective = objectives.IKObjectivePosition("panda_hand", [0.4, 0.1, 0.5])
        with pytest.raises(UnknownNameError, match="panda_hnad") as failure:  # its traceback keeps the solver alive
            IKSolver(panda, objectives=[objective, pose_objective("panda_hnad")], device="cpu")
        solver = IKSolver(panda, objectives=[objective], device="cpu")
        first = solver.solve(problem_count=1)
        del solver
        gc.collect()
        second = IKSolver(panda, objectives=[objective], device="cpu").solve(problem_count=1)
        assert failure.tb is not None
        assert first.success.all()
        assert (first.joint_q == second.joint_q).all()

    def test_what_an_objective_has_not_is_a_clear_error(self, placed):
        nothing = [None] * 5
        for call, error, message in (
            (lambda: IKObjective().residual_dim(), NotImplementedError, "residual_dim"),
            (lambda: IKObjective().compute_residuals(*nothing, None), NotImplementedError, "compute_residuals"),
            (lambda: placed(ClaimsAnalytic(5, [0.1])), ObjectiveError, "not overridden"),
            (lambda: heights().compute_jacobian_analytic(*nothing, 0), ObjectiveError, "has no analytic Jacobian"),
            (lambda: pose_objective().compute_jacobian_analytic(*nothing, 0), ObjectiveError, "bind_problem_index"),
        ):
            with pytest.raises(error, match=message):
                call()

    def test_rows_that_depend_on_the_robot_are_known_after_bind_model(self, panda):
        objective = objectives.IKObjectiveJointLimit()
        with pytest.raises(ObjectiveError, match="after bind_model"):
            objective.residual_dim()
        objective.bind_model(panda.on_device("cpu"))
        assert objective.residual_dim() == 7

    def test_candidates_may_bring_a_larger_batch(self, placed):
        place = placed(pose_objective())
        few = place.residuals()
        more = wp.array(np.tile(place.joint_q, (4, 1)), dtype=float, device="cpu")
        index = wp.array(PROBLEM_IDX * 4, dtype=wp.int32, device="cpu")
        assert (place.compute_residuals(more, index=index).numpy() == np.tile(few, (4, 1))).all()

    def test_the_problem_index_may_change_between_launches(self, panda, workplace):
        place = workplace(panda, pose_objective(), np.tile(configurations(panda, 1), (3, 1)), [0, 0, 0])
        place.bind(IKJacobianType.ANALYTIC)
        assert not np.ptp(place.analytic(), axis=0).any()
        place.index.assign(np.array([1, 0, 1], dtype=np.int32))
        changed = place.analytic()
        assert (changed[0] == changed[2]).all()
        assert np.abs(changed[0] - changed[1]).max() > 0.1


class TestNames:
    @pytest.mark.parametrize(
        ("objective", "error", "message"),
        [
            (pose_objective("panda_hnad"), UnknownNameError, "panda_hnad"),
            (objectives.IKObjectiveLookAt("panda_hnad", [1.0, 0.0, 0.0]), UnknownNameError, "panda_hnad"),
            (objectives.IKObjectiveRelativePose("panda_hand", "panda_hnad", *TARGET), UnknownNameError, "panda_hnad"),
            (objectives.IKObjectiveJointLimit(joints=["panda_jiont1"]), UnknownNameError, "mean 'panda_joint1'"),
            (objectives.IKObjectiveJointLimit(joints="panda_joint1"), InputError, "sequence of joint names"),
            (pose_objective(-1), InputError, "0 to 6"),
            (pose_objective(7), InputError, "0 to 6"),
        ],
    )
    def test_that_are_not_in_the_robot_are_refused(self, panda, objective, error, message):
        with pytest.raises(error, match=message):
            objective.bind_model(panda.on_device("cpu"))

    def test_a_body_index_means_the_body_frame(self, placed):
        by_index = placed(pose_objective(6)).residuals()
        by_name = placed(pose_objective("panda_link7")).residuals()
        assert (by_index == by_name).all()


class TestSupport:
    def test_of_a_static_link_is_empty(self, placed):
        place = placed(pose_objective("panda_link0"))
        assert not place.objective.row_support(place.model).any()
        assert np.abs(place.residuals()[:, GUARD:-GUARD]).max() > 0.1  # but it is judged
        assert not place.analytic()[:, GUARD:-GUARD].any()

    def test_ends_at_the_link_and_leaves_out_what_moves_both_links(self, placed):
        between = objectives.IKObjectiveRelativePose("panda_hand", "panda_link3", *TARGET)
        for objective, row in ((pose_objective("panda_link4"), "1111000"), (between, "0001111")):
            place = placed(objective)
            assert place.objective.row_support(place.model).tolist() == [[digit == "1" for digit in row]] * 6

    def test_of_a_rotation_leaves_out_sliding_joints(self):
        where = scene("two_trees")
        objective = objectives.IKObjectiveRotation("r_tool", [0.0, 0.0, 0.0, 1.0])
        support = objective.row_support(where.robot.on_device("cpu"))
        names = [name for name, used in zip(where.robot.dof_names, support[0], strict=True) if used]
        assert names == ["right_1/wx", "right_1/wy", "right_1/wz", "right_2"]

    def test_is_unknown_where_nobody_states_it(self, panda):
        assert Height(5, [0.1]).row_support(panda.on_device("cpu")) is None


class TestKernels:
    def test_are_shared_by_robots_and_objectives_of_the_same_structure(self):
        groups = set()
        for where in (scene("fixed"), scene("two_trees")):
            ((group, _),) = pose_objective(where.tip).stated_elements(where.robot.on_device("cpu"))
            groups.add(group)
        assert len(groups) == len({residual_kernel(group) for group in groups}) == 1


def test_every_limited_dof_is_free_on_its_limit(panda, workplace):
    model = panda.on_device("cpu")
    limits = np.stack([model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()])
    place = workplace(panda, objectives.IKObjectiveJointLimit(), limits, [0, 0])
    assert not place.residuals()[:, GUARD:-GUARD].any()
    assert not place.analytic()[:, GUARD:-GUARD].any()
    assert not place.autodiff()[:, GUARD:-GUARD].any()
    place.joint_q = np.nextafter(limits, [[-10.0], [10.0]], dtype=np.float32)
    assert (place.residuals()[:, GUARD:-GUARD] != 0.0).all()
    assert (place.analytic()[:, GUARD:-GUARD] == np.eye(7)).all()
