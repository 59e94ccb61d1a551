"""Targets and weights: what is accepted, where it is kept, and what a solver is told when it changes."""

import dataclasses

import numpy as np
import pytest
import warp as wp

import objectives
from ik_service import IKSolver, load_robot
from objectives import IKJacobianType, IKObjectivePose, InputError, ObjectiveError, UnknownNameError
from tests.objectives.conftest import GUARD

HAND, UP = "panda_hand", [0.0, 0.0, 1.0]
IDENTITY_XYZW, STILL = [0.0, 0.0, 0.0, 1.0], [0, 0, 0, 0, 0, 0, 1]
POSITIONS = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9]])


def pose(positions=POSITIONS, orientations_xyzw=IDENTITY_XYZW, **options):
    return IKObjectivePose(HAND, positions, orientations_xyzw, **options)


@pytest.fixture
def place_at(panda, workplace):
    """Places an objective at one configuration, once per problem."""

    def place(objective, problems=3):
        return workplace(panda, objective, np.tile(panda.mid_joint_q, (problems, 1)), np.arange(problems))

    return place


def rows(place):
    return place.residuals()[:, GUARD:-GUARD]


NO_DIRECTIONS = [[0, 0, 0], [0, 0, np.nan], [0, 0, np.inf], [1, 0], [[0, 0, 1], [0, 0, 0]]]
BAD = {
    "orientations_xyzw": [[0, 0, 0, 0], [0, 0, 0, 1.002], [0, 0, 0, 0.5], [0, 0, np.nan, 1]],
    "positions": [[1.0, 2.0], np.zeros((2, 4)), np.zeros((0, 3)), np.zeros((1, 1, 3)), 1.0, "abc", [[1.0, 2.0], [3.0]]],
    "row_weights": [-np.ones(6), np.full(6, np.nan), np.ones(5), np.ones((2, 7))],
    "offset": [[0, 0, 0], [0] * 7, np.full(7, np.nan)],
    "weight": [0.0, -1.0, np.nan, np.inf],
}


class TestInput:
    def test_one_line_serves_all_problems(self, place_at):
        one, many = place_at(pose(POSITIONS[0])), place_at(pose(np.tile(POSITIONS[0], (3, 1))))
        assert (rows(one) == rows(many)).all()

    def test_quaternions_near_unit_length_and_directions_of_any_length_are_normalised(self, place_at):
        q = np.array([0.5, -0.5, 0.5, 0.5])
        unit = rows(place_at(pose(orientations_xyzw=q)))
        for scale in (1.0 + 9e-4, 1.0 - 9e-4):
            assert np.abs(rows(place_at(pose(orientations_xyzw=scale * q))) - unit).max() < 1e-6
        for length in (1e-320, 1e-9, 3.0, 1e300):
            plane = objectives.IKObjectivePlane(HAND, POSITIONS, np.array([[0.0, 0.0, -length], [length, 0, 0]]))
            np.testing.assert_array_equal(plane._fields["normals"].host(), [[0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])

    def test_quaternions_are_normalised_alike_however_they_are_given(self):
        """Those of a floating base are known as such once the robot is."""
        robot = load_robot("humanoid")
        references = robot.random_joint_q(np.random.default_rng(0), 2000)
        made = objectives.IKObjectivePosture(references)
        IKSolver(robot, objectives=[made], device="cpu")
        first = made.data("joint_q_reference").numpy().tobytes()
        copied = made.unbound_copy()
        IKSolver(robot, objectives=[copied], device="cpu")
        assert copied.data("joint_q_reference").numpy().tobytes() == first
        made.set_data("joint_q_reference", references)
        assert made.data("joint_q_reference").numpy().tobytes() == first

    @pytest.mark.parametrize(("field", "bad"), [(field, one) for field, several in BAD.items() for one in several])
    def test_of_wrong_shapes_and_numbers_is_refused(self, field, bad):
        with pytest.raises(InputError, match=field):
            pose(**{field: bad})

    def test_arrays_of_a_wrong_kind_and_data_that_are_not_given_are_refused(self):
        for shape, dtype in (((3, 4), wp.float32), ((4,), wp.float32), ((3, 3), wp.float64), ((0,), wp.vec3)):
            with pytest.raises(InputError, match="target_positions"):
                pose(wp.zeros(shape, dtype=dtype, device="cpu"))
        for make in (
            lambda: pose(orientations_xyzw=None),
            lambda: objectives.IKObjectivePosition(HAND, None),
            lambda: objectives.IKObjectivePosture(None),
            lambda: objectives.IKObjectivePlane(HAND, POSITIONS, None),
        ):
            with pytest.raises(InputError, match=r"has shape \[\]|not an array|finite"):
                make()

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_numbers_that_are_not_finite_are_refused_and_located(self, bad):
        positions = POSITIONS.copy()
        positions[1, 2] = bad
        with pytest.raises(InputError, match=f"IKObjectivePose: .*'target_positions' has {bad} in line 1, column 2"):
            pose(positions)

    @pytest.mark.parametrize("direction", NO_DIRECTIONS)
    def test_a_direction_must_have_one(self, direction):
        for make in (
            lambda: objectives.IKObjectiveLookAt(HAND, POSITIONS, axis=direction),
            lambda: objectives.IKObjectiveAxisAlign(HAND, direction, UP),
            lambda: objectives.IKObjectiveAxisAlign(HAND, UP, direction),
            lambda: objectives.IKObjectivePlane(HAND, POSITIONS, direction),
            lambda: objectives.IKObjectiveLine(HAND, POSITIONS, direction),
        ):
            with pytest.raises(InputError, match=r"axis|normals|directions"):
                make()

    @pytest.mark.parametrize(
        ("objective", "message"),
        [
            (objectives.IKObjectivePosture(np.zeros(6)), r"'joint_q_reference' has shape .*; allowed: .*7"),
            (objectives.IKObjectiveCenterOfMass(POSITIONS), "IKObjectiveCenterOfMass: the robot has no masses"),
            (objectives.IKObjectiveJointLimit(row_weights=np.ones(6)), "'row_weights' has shape"),
            (objectives.IKObjectiveJointLimit(joint_limit_lower=np.zeros(6)), "joint_limit_lower"),
        ],
    )
    def test_must_fit_the_robot(self, panda, objective, message):
        bare = dataclasses.replace(panda, link_mass=0.0 * panda.link_mass)
        with pytest.raises(InputError, match=message):
            objective.bind_model(bare.on_device("cpu"))

    def test_unknown_fields_and_an_offset_that_was_not_stated_are_refused(self):
        with pytest.raises(UnknownNameError, match="Fields: row_weights, target_orientations_xyzw, target_positions"):
            pose().set_data("targets", POSITIONS)
        with pytest.raises(UnknownNameError, match="offset"):
            pose().set_offset([0, 0, 0.1, 0, 0, 0, 1])


class TestProblemCount:
    def test_is_that_of_the_data_and_an_array_of_the_caller_may_have_more_lines(self):
        for problems in (1, 3):
            objective, counts = pose(POSITIONS[:problems]), {"target_orientations_xyzw": 1, "row_weights": 1}
            assert objective.data_rows() == {"target_positions": problems, **counts}
            objective.require_problem_count(3)
        larger = pose(wp.zeros((8, 3), dtype=float, device="cpu"))
        larger.require_problem_count(3)
        for one, lines, problems in ((pose(), 3, 2), (pose(), 3, 4), (larger, 8, 9)):
            with pytest.raises(InputError, match=f"'target_positions' has {lines} lines for {problems} problems"):
                one.require_problem_count(problems)


class TestArrays:
    @pytest.mark.parametrize("dtype", [wp.float32, wp.vec3])
    def test_of_the_caller_are_used_in_place(self, place_at, dtype):
        targets = wp.array(POSITIONS.astype(np.float32), dtype=dtype, device="cpu")
        place = place_at(pose(targets))
        before = rows(place)
        assert (before == rows(place_at(pose()))).all()
        targets.assign(POSITIONS.astype(np.float32) + 1.0)
        np.testing.assert_allclose(before[:, :3] - rows(place)[:, :3], 1.0, atol=1e-6)

    @pytest.mark.parametrize(
        ("field", "values", "dtype"),
        [
            *(("orientations_xyzw", [[0.5, 0.5, -0.5, 0.5]] * 3, dtype) for dtype in (wp.float32, wp.vec4, wp.quat)),
            ("offset", [[0, 0, 0.1, 0, 0, 0, 1]] * 3, wp.transform),
            ("positions", POSITIONS[0], wp.float32),  # plain numbers for all problems
        ],
    )
    def test_may_have_any_form(self, place_at, field, values, dtype):
        values = np.array(values, dtype=np.float32)
        place = place_at(pose(**{field: wp.array(values, dtype=dtype, device="cpu")}))
        assert (rows(place) == rows(place_at(pose(**{field: values})))).all()
        wide = np.pad(POSITIONS.astype(np.float32), ((0, 0), (1, 1)))
        sliced = place_at(pose(wp.array(wide, dtype=float, device="cpu")[:, 1:4]))
        assert (rows(sliced) == rows(place_at(pose()))).all()

    def test_are_there_once_the_device_is_known(self, place_at):
        objective = pose()
        with pytest.raises(ObjectiveError, match="on no device yet"):
            objective.data("target_positions")
        place_at(objective).bind(IKJacobianType.ANALYTIC)
        assert (objective.data("target_positions").numpy() == POSITIONS.astype(np.float32)).all()
        assert objective.row_weights().shape == (1, 6)


class TestChanges:
    def test_of_no_more_lines_go_into_the_same_array(self, place_at):
        objective = pose()
        place = place_at(objective)
        before, version, address = rows(place), objective.data_version, objective.data("target_positions").ptr
        objective.set_targets(POSITIONS + 1.0)
        np.testing.assert_allclose(before[:, :3] - rows(place)[:, :3], 1.0, atol=1e-6)
        objective.set_targets(POSITIONS[:1] + 1.0)  # one for all problems
        np.testing.assert_allclose(rows(place)[:, :3], np.tile(before[0, :3] - 1.0, (3, 1)), atol=1e-6)
        objective.set_targets(POSITIONS[:2])
        assert (rows(place)[:2] == before[:2]).all()
        assert (objective.data_version, objective.data("target_positions").ptr) == (version, address)
        with pytest.raises(InputError, match="2 lines for 3 problems"):
            objective.require_problem_count(3)

    def test_of_more_lines_raise_the_version_until_there_is_room(self, place_at):
        early = pose(POSITIONS[0])
        early.set_targets(POSITIONS)  # before binding
        assert (rows(place_at(early)) == rows(place_at(pose()))).all()
        objective = pose(POSITIONS[0])
        place = place_at(objective)
        before, version = rows(place), objective.data_version
        objective.set_targets(POSITIONS)
        assert objective.data_version > version
        assert (rows(place)[0] == before[0]).all()
        assert (rows(place)[1] != before[1]).any()
        version = objective.data_version
        objective.set_targets(np.tile(POSITIONS[0], (4, 1)))
        assert objective.data_version == version
        assert (rows(place) == before).all()

    def test_to_another_array_of_the_caller_alone_raise_the_version_and_write_into_none(self, place_at):
        targets = wp.array(POSITIONS.astype(np.float32), dtype=wp.vec3, device="cpu")
        objective = pose(targets)
        place_at(objective).bind(IKJacobianType.ANALYTIC)
        version = objective.data_version
        objective.set_targets(targets)
        assert objective.data_version == version
        objective.set_targets(POSITIONS + 1.0)
        assert (targets.numpy() == POSITIONS.astype(np.float32)).all()
        version = objective.data_version
        objective.set_targets(wp.zeros(3, dtype=wp.vec3, device="cpu"))
        assert objective.data_version > version

    def test_that_are_refused_or_a_second_binding_leave_everything_as_it_was(self, place_at):
        objective = pose()
        place = place_at(objective)
        before, version = rows(place), objective.data_version
        with pytest.raises(InputError, match="target_positions"):
            objective.set_targets(POSITIONS * np.nan)
        place.bind(IKJacobianType.ANALYTIC)
        assert (rows(place) == before).all()
        assert objective.data_version == version

    def test_of_limits_are_used_also_from_the_start(self, place_at, panda):
        upper, objective = panda.mid_joint_q - 0.25, objectives.IKObjectiveJointLimit()
        place = place_at(objective)
        assert not rows(place).any()
        objective.set_data("joint_limit_upper", upper)
        for changed in (place, place_at(objectives.IKObjectiveJointLimit(joint_limit_upper=upper))):
            np.testing.assert_allclose(rows(changed), 0.25, atol=1e-6)

    @pytest.mark.parametrize(
        ("objective", "change"),
        [
            (objectives.IKObjectivePosition(HAND, POSITIONS), lambda o: o.set_targets(POSITIONS + 1)),
            (objectives.IKObjectiveRotation(HAND, IDENTITY_XYZW), lambda o: o.set_targets([1, 0, 0, 0])),
            (pose(), lambda o: o.set_targets(target_orientations_xyzw=[1, 0, 0, 0])),
            (pose(offset=STILL), lambda o: o.set_offset([0, 0, 0.1, 0, 0, 0, 1])),
            (objectives.IKObjectiveLookAt(HAND, POSITIONS), lambda o: o.set_targets(-POSITIONS)),
            (objectives.IKObjectiveAxisAlign(HAND, UP, UP), lambda o: o.set_targets([1, 0, 0])),
            (objectives.IKObjectivePlane(HAND, POSITIONS, UP), lambda o: o.set_targets(POSITIONS + 1)),
            (objectives.IKObjectivePlane(HAND, POSITIONS, UP), lambda o: o.set_targets(normals=[1, 0, 0])),
            (objectives.IKObjectiveLine(HAND, POSITIONS, UP), lambda o: o.set_targets(POSITIONS + 1)),
            (objectives.IKObjectiveLine(HAND, POSITIONS, UP), lambda o: o.set_targets(directions=[1, 0, 0])),
            (objectives.IKObjectiveCenterOfMass(POSITIONS), lambda o: o.set_targets(POSITIONS + 1)),
            (objectives.IKObjectivePosture(np.zeros(7)), lambda o: o.set_reference(np.ones(7))),
            (pose(), lambda o: o.set_row_weights(np.full(6, 2.0))),
            (
                objectives.IKObjectiveManipulability(HAND, offset=STILL),
                lambda o: o.set_offset([0.5, 0, 0.5, 0, 0, 0, 1]),
            ),
        ],
    )
    def test_every_setter_changes_the_rows(self, place_at, objective, change):
        place = place_at(objective)
        before, version = rows(place), objective.data_version
        change(objective)
        assert np.abs(rows(place) - before).max() > 0.01
        assert objective.data_version == version


class TestRowWeights:
    def test_of_zero_switch_rows_off_for_one_problem(self, place_at):
        weights = np.ones((3, 6))
        weights[1, [0, 4]] = 0.0
        plain, place = place_at(pose()), place_at(pose(row_weights=weights))
        off = weights == 0.0
        assert not rows(place)[off].any()
        assert (rows(place)[~off] == rows(plain)[~off]).all()
        for method in ("analytic", "autodiff"):
            jacobian = getattr(place, method)()[:, GUARD:-GUARD]
            assert not jacobian[off].any()
            assert (jacobian[~off] == getattr(plain, method)()[:, GUARD:-GUARD][~off]).all()

    def test_multiply_rows_and_jacobian_and_are_given_to_the_solver(self, place_at):
        plain, place = place_at(pose()), place_at(pose(row_weights=np.full(6, 0.5), weight=4.0))
        np.testing.assert_allclose(rows(place), 2.0 * rows(plain), rtol=1e-6)
        assert (place.objective.row_weights().numpy() == 0.5).all()
        expected = 2.0 * plain.analytic()[:, GUARD:-GUARD]
        np.testing.assert_allclose(place.analytic()[:, GUARD:-GUARD], expected, rtol=1e-5, atol=1e-6)


def test_a_judge_can_read_what_is_controlled():
    offset = np.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0])
    objective = pose(offset=offset, reference_link="panda_link0", weight=2.0)
    assert (objective.link, objective.reference_link, objective.weight) == (HAND, "panda_link0", 2.0)
    np.testing.assert_allclose(objective.offset, [offset], atol=1e-7)
    assert pose().offset is None
    assert pose().reference_link is None
