"""The contract of the base class: hooks, autodiff without further work, binding, and what is refused."""

import gc
from dataclasses import replace

import numpy as np
import pytest
import warp as wp

import objectives
from ik_service import IKSolver, load_robot
from objectives import IKJacobianType, IKObjective, IKObjectivePose, InputError, ObjectiveError, UnknownNameError
from objectives.expression.kernels import jacobian_kernel, residual_kernel
from tests.objectives.conftest import GUARD, scene
from tests.objectives.objectives_of_tests import Functions, Height

ROUNDING = 1e-5  # entries are of the size of 1
PROBLEM_IDX = [1, 0, 1]


class Owner:
    """Something that can be weakly referenced."""


class ReadsBeyond(Functions):
    def stated_elements(self, model):
        return [
            (group, [replace(one, data_columns=(1,)) for one in own]) for group, own in super().stated_elements(model)
        ]


class ClaimsAnalytic(Height):
    def supports_analytic(self):
        return True


def configurations(robot, count=3):
    return robot.random_joint_q(np.random.default_rng(1), count)


def pose_objective(link="panda_hand", problems=2):
    rng = np.random.default_rng(2)
    q = rng.normal(size=(problems, 4))
    return IKObjectivePose(link, rng.normal(size=(problems, 3)), q / np.linalg.norm(q, axis=1, keepdims=True))


class TestAutodiff:
    def test_needs_nothing_but_residuals(self, panda, workplace):
        place = workplace(panda, Height(5, [0.1, 0.2]), configurations(panda), PROBLEM_IDX)
        jacobian = place.autodiff()[:, GUARD:-GUARD]
        q, twists = place.joint_q.astype(float), panda.motion_subspace(place.joint_q)
        position = panda.body_poses(place.joint_q)[:, 5, :3]
        expected = np.zeros_like(jacobian)
        velocity = twists[..., :3] + np.cross(twists[..., 3:], position[:, None, :])
        expected[:, 0, :6] = velocity[:, :6, 2]
        expected[:, 1, 0], expected[:, 1, 1] = q[:, 1], q[:, 0]
        assert np.abs(expected).max(axis=(0, 2)).min() > 0.1
        np.testing.assert_allclose(jacobian, expected, atol=ROUNDING)

    @pytest.mark.parametrize("make", [pose_objective, lambda: Height(5, [0.1, 0.2])])
    def test_can_be_recorded_in_a_graph(self, panda, workplace, make):
        place = workplace(panda, make(), configurations(panda), PROBLEM_IDX)
        eager = place.autodiff()
        assert np.abs(eager[:, GUARD:-GUARD]).max() > 0.1
        assert (place.autodiff(graph=True) == eager).all()

    def test_repeats_for_another_batch(self, panda, workplace):
        place = workplace(panda, Height(5, [0.1, 0.2]), configurations(panda), PROBLEM_IDX)
        first = place.autodiff()
        place.joint_q = place.joint_q[:2]
        assert (place.autodiff() == first[:2]).all()

    def test_without_layout_is_a_clear_error(self, panda):
        with pytest.raises(ObjectiveError, match="set_batch_layout"):
            Height(5, [0.1]).init_buffers(panda.on_device("cpu"), IKJacobianType.AUTODIFF)

    def test_of_a_tape_without_dq_is_a_clear_error(self, panda, workplace):
        place = workplace(panda, Height(5, [0.1, 0.2]), configurations(panda), PROBLEM_IDX)
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
    def test_to_a_second_solver_is_refused(self, panda, workplace):
        objective = pose_objective()
        place = workplace(panda, objective, configurations(panda), PROBLEM_IDX)
        objective.bind_solver(place)  # again the same: nothing happens
        with pytest.raises(ObjectiveError, match="bound to a solver already"):
            workplace(panda, objective, configurations(panda), PROBLEM_IDX)

    def test_to_another_solver_is_possible_once_the_first_is_gone(self, panda, workplace):
        objective = pose_objective()
        first = workplace(panda, objective, configurations(panda), PROBLEM_IDX)
        before = first.residuals()
        del first
        gc.collect()
        second = workplace(panda, objective, configurations(panda), PROBLEM_IDX)
        assert (second.residuals() == before).all()
        with pytest.raises(ObjectiveError, match="bound to a solver already"):
            objective.bind_solver(Owner())

    def test_to_another_robot_leaves_nothing_of_the_first(self, panda, workplace):
        objective, other = objectives.IKObjectiveJointLimit(), load_robot("ur5e", collision="ignore")
        first = workplace(panda, objective, configurations(panda), PROBLEM_IDX)
        assert first.residuals().shape[1] == 7 + 2 * GUARD
        objective.release_solver(first)
        beyond = np.full((3, 6), 7.0)
        again = workplace(other, objective, beyond, PROBLEM_IDX).residuals()
        expected = workplace(other, objectives.IKObjectiveJointLimit(), beyond, PROBLEM_IDX).residuals()
        assert expected[:, GUARD:-GUARD].all()
        assert (again == expected).all()

    def test_finds_elements_that_read_beyond_their_data(self, panda):
        with pytest.raises(
            ObjectiveError, match="ReadsBeyond: an element reads columns 1 to 1 of 'shift', which has 0"
        ):
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

    def test_an_unbound_copy_can_be_bound(self, panda, workplace):
        objective = pose_objective()
        first = workplace(panda, objective, configurations(panda), PROBLEM_IDX).residuals()
        second = workplace(panda, objective.unbound_copy(), configurations(panda), PROBLEM_IDX).residuals()
        assert (first == second).all()

    def test_an_analytic_jacobian_that_is_only_claimed_is_refused(self, panda, workplace):
        with pytest.raises(ObjectiveError, match="not overridden"):
            workplace(panda, ClaimsAnalytic(5, [0.1]), configurations(panda), PROBLEM_IDX)

    def test_an_analytic_jacobian_that_is_not_there_cannot_be_asked_for(self):
        with pytest.raises(ObjectiveError, match="has no analytic Jacobian"):
            Height(5, [0.1]).compute_jacobian_analytic(None, None, None, None, None, 0)

    def test_analytic_without_a_problem_index_is_refused(self, panda):
        with pytest.raises(ObjectiveError, match="bind_problem_index"):
            pose_objective().compute_jacobian_analytic(None, None, None, None, None, 0)

    @pytest.mark.parametrize("hook", ["residual_dim", "compute_residuals"])
    def test_hooks_that_must_be_overridden_say_so(self, hook):
        arguments = [None] * (6 if hook == "compute_residuals" else 0)
        with pytest.raises(NotImplementedError, match=hook):
            getattr(IKObjective(), hook)(*arguments)

    def test_rows_that_depend_on_the_robot_are_known_after_bind_model(self, panda):
        objective = objectives.IKObjectiveJointLimit()
        with pytest.raises(ObjectiveError, match="after bind_model"):
            objective.residual_dim()
        objective.bind_model(panda.on_device("cpu"))
        assert objective.residual_dim() == 7

    def test_candidates_may_bring_a_larger_batch(self, panda, workplace):
        place = workplace(panda, pose_objective(), configurations(panda), PROBLEM_IDX)
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
        "objective",
        [
            pose_objective("panda_hnad"),
            objectives.IKObjectiveLookAt("panda_hnad", [1.0, 0.0, 0.0]),
            objectives.IKObjectiveRelativePose("panda_hand", "panda_hnad", [0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]),
        ],
    )
    def test_an_unknown_link_is_refused(self, panda, objective):
        with pytest.raises(UnknownNameError, match="panda_hnad"):
            objective.bind_model(panda.on_device("cpu"))

    def test_an_unknown_joint_is_refused_with_a_hint(self, panda):
        with pytest.raises(UnknownNameError, match="Did you mean 'panda_joint1'"):
            objectives.IKObjectiveJointLimit(joints=["panda_jiont1"]).bind_model(panda.on_device("cpu"))

    def test_one_string_is_not_a_list_of_joints(self, panda):
        with pytest.raises(InputError, match="sequence of joint names"):
            objectives.IKObjectiveJointLimit(joints="panda_joint1").bind_model(panda.on_device("cpu"))

    @pytest.mark.parametrize("body", [-1, 7])
    def test_a_body_index_must_be_in_the_robot(self, panda, body):
        with pytest.raises(InputError, match="0 to 6"):
            pose_objective(body).bind_model(panda.on_device("cpu"))

    def test_a_body_index_means_the_body_frame(self, panda, workplace):
        by_index = workplace(panda, pose_objective(6), configurations(panda), PROBLEM_IDX).residuals()
        by_name = workplace(panda, pose_objective("panda_link7"), configurations(panda), PROBLEM_IDX).residuals()
        assert (by_index == by_name).all()


class TestSupport:
    def test_of_a_static_link_is_empty(self, panda, workplace):
        place = workplace(panda, pose_objective("panda_link0"), configurations(panda), PROBLEM_IDX)
        assert not place.objective.row_support(place.model).any()
        assert np.abs(place.residuals()[:, GUARD:-GUARD]).max() > 0.1  # but it is judged
        assert not place.analytic()[:, GUARD:-GUARD].any()

    def test_ends_at_the_link(self, panda, workplace):
        place = workplace(panda, pose_objective("panda_link4"), configurations(panda), PROBLEM_IDX)
        assert place.objective.row_support(place.model).tolist() == [[True] * 4 + [False] * 3] * 6

    def test_of_a_relative_pose_leaves_out_what_moves_both_links(self, panda, workplace):
        objective = objectives.IKObjectiveRelativePose(
            "panda_hand", "panda_link3", [0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 1.0]
        )
        place = workplace(panda, objective, configurations(panda), PROBLEM_IDX)
        assert place.objective.row_support(place.model).tolist() == [[False] * 3 + [True] * 4] * 6

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
        groups, kernels = set(), set()
        for name in ("fixed", "two_trees"):
            where = scene(name)
            objective = pose_objective(where.tip)
            ((group, _),) = objective.stated_elements(where.robot.on_device("cpu"))
            groups.add(group)
            kernels.add(residual_kernel(group))
        assert len(groups) == len(kernels) == 1

    def test_only_residuals_keep_the_backward_pass(self, panda):
        ((group, _),) = pose_objective().stated_elements(panda.on_device("cpu"))
        assert residual_kernel(group).module.options["enable_backward"] is True
        assert jacobian_kernel(group).module.options["enable_backward"] is False


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
