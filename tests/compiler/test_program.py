"""Stages of the compiler: polynomials, transplanted expressions, the program of an island, and packets."""

import numpy as np
import pytest
import warp as wp

import ik_service
from ik_service.compiler import build_program, packet_functions, packet_lines, packet_name, uncovered
from ik_service.compiler.half_angle import half_angle_sine_cosine
from ik_service.compiler.transplant import transplant
from objectives import (
    IKObjective,
    IKObjectiveLookAt,
    IKObjectivePose,
    IKObjectivePosition,
    IKObjectivePosture,
    IKObjectiveRelativePose,
)
from objectives.expression import ExpressionGraph, evaluate, maximum, minimum, sign, sqrt, step

COUNT = 6
QUATERNION = np.array([0.5, -0.1, 0.3, 0.8]) / np.linalg.norm([0.5, -0.1, 0.3, 0.8])
TOOL = np.array([0.1, -0.05, 0.2, 0.0, np.sin(0.3), 0.0, np.cos(0.3)])


def test_half_angle_polynomials_are_as_good_as_float32():
    graph = ExpressionGraph()
    half = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 1001)
    sine, cosine = evaluate(half_angle_sine_cosine(graph.variable("half")), {"half": half})
    np.testing.assert_allclose(sine, np.sin(half), atol=4e-8)
    np.testing.assert_allclose(cosine, np.cos(half), atol=2e-8)


def test_transplanted_expressions_are_folded_and_equal():
    graph, other = ExpressionGraph(), ExpressionGraph()
    x, y = graph.variable("x"), graph.variable("y")
    outputs = [
        sqrt(maximum(x * x + y, 0.5)) / (2.0 + y * y),
        minimum(x, -y) * sign(x) - step(y) + 3.0,
        x * y - y * x,
    ]
    z = other.variable("z")
    moved = transplant(outputs, {"x": z * 2.0, "y": 0.25}, other)
    values = np.linspace(-2.0, 2.0, 9)
    expected = evaluate(outputs, {"x": 2.0 * values, "y": 0.25})
    for a, b in zip(evaluate(moved, {"z": values}), expected, strict=True):
        np.testing.assert_allclose(np.broadcast_to(a, 9), np.broadcast_to(b, 9), rtol=1e-14)
    assert moved[2].is_zero


class Case:
    """An objective on a robot, and its rows in float64 from host kinematics."""

    def __init__(self, robot, objective, data, expected):
        self.robot, self.objective, self.data, self.expected = robot, objective, data, expected


def rotation_rows(q, goal):
    x, y, z, w = np.moveaxis(goal * [-1, -1, -1, 1], -1, 0)
    a = q[:, 3] * x + q[:, 0] * w + q[:, 1] * z - q[:, 2] * y
    b = q[:, 3] * y + q[:, 1] * w + q[:, 2] * x - q[:, 0] * z
    c = q[:, 3] * z + q[:, 2] * w + q[:, 0] * y - q[:, 1] * x
    real = q[:, 3] * w - q[:, 0] * x - q[:, 1] * y - q[:, 2] * z
    return 2.0 * np.where(real < 0.0, -1.0, 1.0)[:, None] * np.stack([a, b, c], axis=1)


def cases():
    panda, gripper, dual = (ik_service.load_robot(name) for name in ("panda", "panda_gripper", "dual_panda"))
    locked = panda.lock({"panda_joint2": 0.4, "panda_joint5": -0.7})
    point = np.array([0.4, 0.1, 0.5])

    def pose(robot, link):
        def rows(q):
            poses = robot.forward_kinematics(q, [link])
            return np.hstack([poses.positions[:, 0] - point, rotation_rows(poses.orientations_xyzw[:, 0], QUATERNION)])

        return rows

    def gap(q):
        poses = dual.forward_kinematics(q, ["left_panda_hand", "right_panda_hand"])
        return np.linalg.norm(poses.positions[:, 0] - poses.positions[:, 1], axis=1)

    goal = {"target_positions": point, "target_orientations_xyzw": QUATERNION}
    yield Case(panda, IKObjectivePose("panda_hand", point, QUATERNION), goal, pose(panda, "panda_hand"))
    yield Case(locked, IKObjectivePose("panda_hand", point, QUATERNION), goal, pose(locked, "panda_hand"))
    finger = "panda_rightfinger"  # behind the follower
    yield Case(gripper, IKObjectivePose(finger, point, QUATERNION), goal, pose(gripper, finger))
    tool = panda.with_frame("tool", "panda_hand", TOOL)
    offset = IKObjectivePose("panda_hand", point, QUATERNION, offset=TOOL)
    yield Case(panda, offset, goal | {"offset": TOOL}, pose(tool, "tool"))
    posture = IKObjectivePosture(panda.mid_joint_q, weight=0.5)
    yield Case(panda, posture, {"joint_q_reference": panda.mid_joint_q}, lambda q: 0.5 * (q - panda.mid_joint_q))
    relative = IKObjectiveRelativePose("left_panda_hand", "right_panda_hand", point, QUATERNION)
    yield Case(dual, relative, goal, lambda q: gap(q)[:, None])
    yield Case(panda, IKObjectiveLookAt("panda_hand", point), {"target_points": point, "axis": (0.0, 0.0, 1.0)}, None)


def bound(case):
    """The program of a case with all its rows, and values for its variables at random configurations."""
    model = case.robot.on_device("cpu")
    case.objective.bind_model(model)
    rows = range(case.objective.residual_dim())
    dofs = range(case.robot.active_dof_count)
    program = build_program(case.robot, model, [case.objective], [0], dofs, rows, 0)
    q = case.robot.random_joint_q(np.random.default_rng(3), COUNT)
    return program, q


def values_at(case, program, q):
    values = {f"trial{a}": q[:, case.robot.dof_coordinate[d]] for a, d in enumerate(case.robot.active_dof)}
    for name, (active, multiplier, offset) in program.halves.items():
        angle = multiplier * values[f"trial{active}"] + offset
        values[name] = 0.5 * (angle - 2.0 * np.pi * np.round(angle / (2.0 * np.pi)))
    data = case.data | {"row_weights": np.ones(len(program.rows))}
    return values | {one.name: data[one.field][one.column] for one in program.inputs}


def numbers(outputs, values):
    return np.stack([np.broadcast_to(x, COUNT) for x in evaluate(outputs, values)], axis=1)


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{case.robot.name} {type(case.objective).__name__}")
def test_rows_and_jacobian_of_a_program(case):
    program, q = bound(case)
    rows = numbers(program.rows, values_at(case, program, q))
    if isinstance(case.objective, IKObjectiveRelativePose):
        offset = rows[:, :3] + case.data["target_positions"]
        np.testing.assert_allclose(np.linalg.norm(offset, axis=1), case.expected(q)[:, 0], atol=1e-7)
    elif case.expected is not None:
        np.testing.assert_allclose(rows, case.expected(q), atol=1e-7)
    assert np.abs(rows).max() > 0.1
    for k, d in enumerate(case.robot.active_dof):
        moved = []
        for sign_of_step in (1.0, -1.0):
            shifted = q.copy()
            shifted[:, case.robot.dof_coordinate[d]] += sign_of_step * 1e-6
            shifted = case.robot.complete_joint_q(shifted)
            moved.append(numbers(program.rows, values_at(case, program, shifted)))
        expected = (moved[0] - moved[1]) / 2e-6
        column = numbers([row[k] for row in program.jacobian], values_at(case, program, q))
        np.testing.assert_allclose(column, expected, atol=2e-6)  # of the polynomials' own slope


def test_normal_equations_of_a_program():
    case = next(cases())
    program, q = bound(case)
    values = values_at(case, program, q)
    rows = numbers(program.rows, values)
    jacobian = np.stack([numbers(row, values) for row in program.jacobian], axis=1)
    np.testing.assert_allclose(numbers([program.norm2], values)[:, 0], (rows**2).sum(axis=1), rtol=1e-12)
    gradient = np.einsum("ira,ir->ia", jacobian, rows)
    np.testing.assert_allclose(numbers(program.gradient, values), gradient, atol=1e-12)
    hessian = np.einsum("ira,irb->iab", jacobian, jacobian)
    for a, row in enumerate(program.hessian):
        np.testing.assert_allclose(numbers(row, values), hessian[:, a, : a + 1], atol=1e-12)


def kernel_of(outputs, variables, width):
    """A kernel that loads packets of its variables, evaluates, and stores the outputs."""
    names = {}
    lines = [f"{name} = P(0.0)" for name in variables]
    lane = "[lane]" if width > 1 else ""
    body = [f"{name}{lane} = values[{k}, first + lane]" for k, name in enumerate(variables)]
    load = ["lane = int(0)", f"while lane < {width}:", *(f"    {line}" for line in body), "    lane += 1"]
    work = packet_lines(outputs, names)
    work += [f"out{k} = {packet_name(node, names)}" for k, node in enumerate(outputs)]
    body = [f"results[{k}, first + lane] = out{k}{lane}" for k in range(len(outputs))]
    store = ["lane = int(0)", f"while lane < {width}:", *(f"    {line}" for line in body), "    lane += 1"]
    head = f"def evaluate_packets_{width}(values: wp.array2d[float], results: wp.array2d[float]):\n"
    lines = [f"first = wp.tid() * {width}", *lines, *load, *work, *store]
    text = head + "".join(f"    {line}\n" for line in lines)
    namespace = {"wp": wp, **packet_functions(width)}
    exec(compile(text, "<packets>", "exec"), namespace)
    module = wp.get_module(f"test_packets_{width}")
    wp.set_module_options({"enable_backward": False}, module)
    return wp.Kernel(namespace[f"evaluate_packets_{width}"], key=f"packets_{width}", module=module, source=text)


@pytest.mark.parametrize("width", [8, 4, 1])
def test_every_operation_on_packets_equals_numpy(width):
    graph = ExpressionGraph()
    x, y = graph.variable("x"), graph.variable("y")
    outputs = [
        x + y, x + 0.5, x - y, x - 0.5, 0.5 - x, x * y, x * 0.3, x / (y * y + 1.0), 0.7 / (y * y + 1.0), -(x * y),
        sqrt(maximum(x, 0.25)), sign(x), step(x), minimum(x, y), maximum(x, y), minimum(x, 0.3), maximum(x * y, 0.0),
    ]  # fmt: skip
    values = np.random.default_rng(0).uniform(-2.0, 2.0, (2, 32)).astype(np.float32)
    results = wp.zeros((len(outputs), 32), dtype=float, device="cpu")
    kernel = kernel_of(outputs, ["x", "y"], width)
    wp.launch(kernel, dim=32 // width, inputs=[wp.array(values, dtype=float, device="cpu"), results], device="cpu")
    expected = evaluate(outputs, {"x": values[0].astype(np.float64), "y": values[1].astype(np.float64)})
    for got, wanted in zip(results.numpy(), expected, strict=True):
        np.testing.assert_allclose(got, np.broadcast_to(wanted, 32), rtol=1e-6, atol=1e-6)
    assert np.ptp(results.numpy(), axis=1).min() > 0.0


def test_what_is_not_covered_says_why():
    humanoid, panda = ik_service.load_robot("humanoid"), ik_service.load_robot("panda")
    pose = IKObjectivePosition("left_sole", (0, 0, 0))
    assert "floating_base" in uncovered(humanoid, [pose], range(humanoid.active_dof_count))
    assert "IKObjective is not stated" in uncovered(panda, [IKObjective()], range(7))
    assert uncovered(panda, [IKObjectivePosition("panda_hand", (0, 0, 0))], range(7)) is None
