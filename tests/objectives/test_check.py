"""`objectives.check`: it passes what is right, and names objective, row and DOF of what is wrong."""

import typing
import warnings

import numpy as np
import pytest
import warp as wp

import objectives
from objectives import IKObjective, InputError, ObjectiveError
from tests.objectives.objectives_of_tests import Height

TIGHT = 1e-4  # five-point differences of float32 residuals are good to about 1e-5


@wp.kernel
@typing.no_type_check
def _sine_residuals(joint_q: wp.array2d[float], start_idx: int, residuals_out: wp.array2d[float]):
    i, k = wp.tid()
    residuals_out[i, start_idx + k] = wp.sin(joint_q[i, k])


@wp.kernel(enable_backward=False, module="unique")
@typing.no_type_check
def _sine_residuals_without_backward(joint_q: wp.array2d[float], start_idx: int, residuals_out: wp.array2d[float]):
    i, k = wp.tid()
    residuals_out[i, start_idx + k] = wp.sin(joint_q[i, k])


@wp.kernel(enable_backward=False)
@typing.no_type_check
def _sine_jacobian(joint_q: wp.array2d[float], start_idx: int, wrong: wp.vec2i, jacobian_out: wp.array3d[float]):
    i, k = wp.tid()
    jacobian_out[i, start_idx + k, k] = wp.cos(joint_q[i, k])
    if k == wrong[0]:
        jacobian_out[i, start_idx + k, wrong[1]] = jacobian_out[i, start_idx + k, wrong[1]] + 0.01


class Sine(IKObjective):
    """Three rows, sin(q) of the first three coordinates, with mistakes to order."""

    kernel = _sine_residuals

    def __init__(self, *, wrong=(-1, -1), support=None, rows_written=3, shift=0):
        self.wrong, self.support, self.rows_written, self.shift = wp.vec2i(*wrong), support, rows_written, shift

    def residual_dim(self):
        return 3

    def supports_analytic(self):
        return True

    def row_support(self, model):
        return self.support

    def compute_residuals(self, body_q, joint_q, model, residuals, start_idx, problem_idx):
        shape = (joint_q.shape[0], self.rows_written)
        wp.launch(self.kernel, shape, [joint_q, start_idx + self.shift], [residuals], device=joint_q.device)

    def compute_jacobian_analytic(self, body_q, joint_q, model, jacobian, joint_S_s, start_idx):
        shape = (joint_q.shape[0], 3)
        wp.launch(_sine_jacobian, shape, [joint_q, start_idx, self.wrong], [jacobian], device=joint_q.device)


class SineWithoutBackward(Sine):
    kernel = _sine_residuals_without_backward

    def supports_analytic(self):
        return False


@wp.kernel(enable_backward=False)
@typing.no_type_check
def _hinge_jacobian(joint_q: wp.array2d[float], at: wp.array[float], start: int, slope: float, out: wp.array3d[float]):
    i, k = wp.tid()
    out[i, start, k] = wp.where(joint_q[i, k] > at[k], slope, 0.0)


@wp.kernel
@typing.no_type_check
def _hinge_residuals(joint_q: wp.array2d[float], at: wp.array[float], start: int, out: wp.array2d[float]):
    i, k = wp.tid()
    wp.atomic_add(out, i, start, wp.max(joint_q[i, k] - at[k], 0.0))


class Hinge(IKObjective):
    """One row, the sum of what coordinates are above some values; its slopes as they are, or other ones."""

    def __init__(self, at, slope=1.0):
        self.at, self.slope = wp.array(at, dtype=wp.float32, device="cpu"), slope

    def residual_dim(self):
        return 1

    def supports_analytic(self):
        return True

    def compute_residuals(self, body_q, joint_q, model, residuals, start_idx, problem_idx):
        residuals[:, start_idx].zero_()
        wp.launch(_hinge_residuals, joint_q.shape, [joint_q, self.at, start_idx], [residuals], device=joint_q.device)

    def compute_jacobian_analytic(self, body_q, joint_q, model, jacobian, joint_S_s, start_idx):
        given = [joint_q, self.at, start_idx, self.slope]
        wp.launch(_hinge_jacobian, joint_q.shape, given, [jacobian], device=joint_q.device)


def test_objectives_without_mistakes_pass(panda):
    report = objectives.check(Sine(support=DIAGONAL), panda)
    assert report.nonzero_count == 2 * 8 * 3
    assert report.largest_error < TIGHT
    report = objectives.check(Height(5, [0.1]), panda)
    assert report.methods == ("autodiff",)
    assert report.nonzero_count > 0
    targets = np.array([[0.1, 0.2, 0.3], [1.0, 2.0, 3.0], [-5.0, 2.0, 0.1]])
    assert objectives.check(objectives.IKObjectiveLookAt("panda_hand", targets), panda).nonzero_count > 0


DIAGONAL = np.eye(3, 7, dtype=bool)
WRONG = r"Sine: row {} of the analytic Jacobian by DOF 'panda_joint{}' is .* finite differences give"
MISTAKES = [
    *(({"wrong": (row, dof)}, WRONG.format(row, dof + 1)) for row, dof in ((0, 0), (2, 2), (1, 5))),
    (
        {"support": np.diag([True, False, True]) @ DIAGONAL},
        "row 1 of the analytic Jacobian depends on DOF 'panda_joint2'",
    ),
    ({"support": DIAGONAL[:, :6]}, r"row_support\(\) has shape \(3, 6\), not \(3, 7\)"),
    ({"rows_written": 2}, "row 2 of the residuals is not written"),
    ({"shift": -1}, "outside the rows of the objective"),
    ({"shift": 1}, "outside the rows of the objective"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES)
def test_a_mistake_is_named(panda, options, message):
    with pytest.raises(ObjectiveError, match=message):
        objectives.check(Sine(**options), panda)


def test_a_kernel_without_backward_pass_is_noticed(panda):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Warp's own, which it gives once
        with pytest.raises(ObjectiveError, match="Kernel '_sine_residuals_without_backward' has no backward pass"):
            objectives.check(SineWithoutBackward(), panda)


@wp.func
@typing.no_type_check
def _distance(joint_q: wp.array2d[float], i: int, points: wp.array[wp.vec3]):
    q = wp.vec3(joint_q[i, 0], joint_q[i, 1], joint_q[i, 2])
    moment = wp.vec3(0.0)
    for k in range(points.shape[0]):
        moment = moment + points[k] + wp.cross(points[k], q)
    return wp.length(moment)


@wp.kernel
@typing.no_type_check
def _rolled_in_a_function(joint_q: wp.array2d[float], points: wp.array[wp.vec3], row: int, out: wp.array2d[float]):
    i = wp.tid()
    out[i, row] = _distance(joint_q, i, points)


@wp.kernel
@typing.no_type_check
def _rolled_root(joint_q: wp.array2d[float], points: wp.array[wp.vec3], row: int, out: wp.array2d[float]):
    i = wp.tid()
    square = float(0.0)
    k = int(0)
    while k < points.shape[0]:
        square += (joint_q[i, k] + points[k][0]) * (joint_q[i, k] + points[k][0])
        k += 1
    out[i, row] = wp.sqrt(square)


@wp.kernel
@typing.no_type_check
def _rolled_sum(joint_q: wp.array2d[float], points: wp.array[wp.vec3], row: int, out: wp.array2d[float]):
    i = wp.tid()
    total = float(0.0)
    for k in range(points.shape[0]):
        total += wp.sin(joint_q[i, k]) * points[k][0]
    out[i, row] = total


@wp.kernel
@typing.no_type_check
def _unrolled(joint_q: wp.array2d[float], points: wp.array[wp.vec3], row: int, out: wp.array2d[float]):
    i = wp.tid()
    square = float(0.0)
    for k in range(3):
        square += (joint_q[i, k] + points[k][0]) * (joint_q[i, k] + points[k][0])
    out[i, row] = wp.sqrt(square)


class OfPoints(IKObjective):
    """A row from three points, by a kernel to order."""

    def __init__(self, kernel):
        self.kernel = kernel

    def residual_dim(self):
        return 1

    def bind_device(self, device):
        super().bind_device(device)
        self.points = wp.array([[1.0, 0.5, 0.2], [2.0, -0.5, 0.1], [1.5, 0.3, 0.3]], dtype=wp.vec3, device=device)

    def compute_residuals(self, body_q, joint_q, model, residuals, start_idx, problem_idx):
        inputs = [joint_q, self.points, start_idx]
        wp.launch(self.kernel, joint_q.shape[0], inputs, [residuals], device=joint_q.device)


@pytest.mark.parametrize(
    ("kernel", "loop"),
    [(_rolled_in_a_function, r"for ... in range\(points.shape\[0\]\)"), (_rolled_root, r"while k < points.shape\[0\]")],
)
def test_a_loop_of_unknown_length_is_named(panda, kernel, loop):
    """Warp's backward pass does not know what such a loop has made of its variables."""
    words = rf"autodiff Jacobian .*Kernel '{kernel.key}' has a loop that Warp does not unroll \({loop}\)"
    with pytest.raises(ObjectiveError, match=words) as caught:
        objectives.check(OfPoints(kernel), panda)
    assert "keep their backward pass" not in str(caught.value)


@pytest.mark.parametrize("kernel", [_rolled_sum, _unrolled])
def test_loops_that_warp_differentiates_pass(panda, kernel):
    assert objectives.check(OfPoints(kernel), panda).nonzero_count > 0


def test_a_wrong_jacobian_without_such_a_cause_has_no_hint(panda):
    class Detached(OfPoints):
        def compute_residuals(self, body_q, joint_q, model, residuals, start_idx, problem_idx):
            super().compute_residuals(body_q, wp.array(joint_q.numpy()), model, residuals, start_idx, problem_idx)

    with pytest.raises(ObjectiveError, match="does everything from body_q and joint_q to the rows run in Warp kernels"):
        objectives.check(Detached(_unrolled), panda)


def test_bends_and_jumps_are_not_mistaken_for_errors(panda):
    outside = np.stack([panda.joint_limit_lower - 0.003, panda.joint_limit_upper + 0.003])
    report = objectives.check(objectives.IKObjectiveJointLimit(), panda, joint_q=outside)
    assert report.kink_count == 14  # every joint at both configurations bends within the reach of the differences
    assert report.nonzero_count == 28
    q = panda.mid_joint_q
    x, y, z, w = panda.forward_kinematics(q, links=["panda_hand"]).orientations_xyzw[0, 0]
    opposite = [w, -z, y, -x]  # a turn by pi about the x axis
    report = objectives.check(objectives.IKObjectiveRotation("panda_hand", opposite), panda, joint_q=q)
    assert report.kink_count > 0


@pytest.mark.parametrize("distance", np.linspace(-0.05, 0.05, 41))
def test_bends_anywhere_between_the_points_are_not_mistaken_for_errors(panda, distance):
    """Slight ones too: another joint is far beyond its limit, so that the row's slope is large by that one."""
    joint_q = panda.joint_limit_upper + distance
    joint_q[0] = panda.joint_limit_upper[0] + 1.0
    assert objectives.check(objectives.IKObjectiveJointLimit(), panda, joint_q=joint_q).nonzero_count > 0
    assert objectives.check(Hinge(panda.mid_joint_q + distance), panda, joint_q=panda.mid_joint_q).compared_count > 0


def test_slopes_beside_a_slight_bend_are_checked(panda):
    with pytest.raises(ObjectiveError, match="finite differences give"):
        objectives.check(Hinge(panda.mid_joint_q - 0.03, slope=1.4), panda, joint_q=panda.mid_joint_q)


def test_the_objective_itself_is_left_alone(panda, workplace):
    objective = objectives.IKObjectivePosition("panda_hand", [0.1, 0.2, 0.3])
    place = workplace(panda, objective, panda.mid_joint_q, [0])
    before, version = place.residuals(), objective.data_version
    objectives.check(objective, panda)
    assert (place.compute_residuals(wp.array(place.joint_q, dtype=float, device="cpu")).numpy() == before).all()
    assert (objective.n_batch, objective.data_version) == (1, version)


def test_bad_options_and_objectives_without_rows_or_of_another_library_are_refused(panda):
    class Other:
        def residual_dim(self):
            return 1

    for options in ({"sample_count": 0}, {"tolerance": 0.0}):
        with pytest.raises(InputError, match="must be positive"):
            objectives.check(Sine(), panda, **options)
    loose = panda.lock({})
    with pytest.raises(ObjectiveError, match="no rows"):
        objectives.check(objectives.IKObjectivePosture(loose.mid_joint_q, joints=[]), loose)
    with pytest.raises(ObjectiveError, match=r"Other is not derived .* SolverOptions\(check_jacobians=True\)"):
        objectives.check(Other(), panda)
