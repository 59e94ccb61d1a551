"""One Levenberg-Marquardt iteration in NumPy, as the docstrings of the compiler state it, and states of many lanes.

Rows and derivatives are those of the oracles; nothing of the program is evaluated here but the errors of its targets.
"""

from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import pairwise

import numpy as np

from ik_service.compiler import Damping, IterationSource, LaneState, coordinate_names, error_outputs
from ik_service.compiler.code.step import COMPLIANT_SHARE, NO_ROW, SMALLEST_ROW
from ik_service.mechanism.transforms import quaternion_exp, quaternion_multiply
from tests.compiler.conftest import half_angle_error
from tests.compiler.oracles import columns, evaluated

NOT_EVALUATED = 1e30
NUMBERS = ("norm2", "damping_factor", "steps", "floor2")  # that a lane has one of


@dataclass(frozen=True)
class States:
    """States of n lanes, float64; the first dimension is the lane."""

    q: np.ndarray  # [n, coordinates]
    trial: np.ndarray
    gradient: np.ndarray  # [n, dofs]
    lengths2: np.ndarray  # [n, dofs], or [n, 1]
    errors: np.ndarray  # [n, errors]
    norm2: np.ndarray  # [n]
    damping_factor: np.ndarray
    steps: np.ndarray
    stage: np.ndarray  # [n, 0]: no rows yield to others
    hessian: np.ndarray  # [n, 0]: these lanes do not keep it
    lower: np.ndarray  # [n, dofs]
    upper: np.ndarray
    inputs: np.ndarray  # [n, inputs]
    floor2: np.ndarray

    @classmethod
    def start(cls, case, source, joint_q, damping_factor=1.0, floor2=0.0):
        """Lanes that have not been evaluated yet; the numbers may differ from lane to lane."""
        n, program, robot = len(joint_q), source.program, case.robot
        trial = joint_q[:, columns(robot, program)]
        limits = [np.tile(ends[list(program.dofs)], (n, 1)) for ends in limits_of(robot)]
        inputs = np.tile(case.data(program), (n, 1))
        errors = np.zeros((n, len(error_outputs(program))))
        lanes = [np.zeros(n) + number for number in (NOT_EVALUATED, damping_factor, 0.0, floor2)]
        blank = [np.zeros((n, len(program.dofs))), np.zeros((n, len(source.step.lengths2())))]
        return cls(
            trial.copy(), trial, *blank, errors, *lanes[:3], *2 * [np.zeros((n, 0))], *limits, inputs, *lanes[3:]
        )

    def packed(self):
        """As the native line holds them, [n, places]."""
        return np.column_stack([getattr(self, field.name) for field in fields(self)])

    @classmethod
    def unpacked(cls, places, source):
        """From what the native line left, by the places that `LaneState` names."""
        names = [field.name for field in fields(LaneState)]
        ends = [getattr(source.state, name) for name in names]
        groups = {name: places[:, a:b] for name, (a, b) in zip(names[:-1], pairwise(ends), strict=True)}
        own = {field.name: groups.pop(field.name) for field in fields(cls)}
        assert not any(group.size for group in groups.values())  # none of what these lanes do without
        return cls(**{name: group[:, 0] if name in NUMBERS else group for name, group in own.items()})


def limits_of(robot):
    """Limits of the active DOFs; the rotations of ball and floating joints have none."""
    return robot.active_limit_lower, robot.active_limit_upper


def full_joint_q(case, program, coordinates):
    """Configurations of the robot [n, joint_coord_count] from those of the island."""
    q = np.tile(case.robot.mid_joint_q, (len(coordinates), 1))
    q[:, columns(case.robot, program)] = coordinates
    return case.robot.complete_joint_q(q)


def evaluation(case, program, coordinates):
    """Normal equations, |r|^2 and errors at configurations of the island, by the oracles."""
    q = full_joint_q(case, program, coordinates)
    rows = case.oracle.rows(q)
    jacobian = case.active(case.oracle.jacobian(q))[..., list(program.dofs)]
    outputs = [node for _, node in error_outputs(program)]
    errors = evaluated(outputs, case.values(program, q), len(q)) if outputs else np.zeros((len(q), 0))
    return {
        "rows": rows,
        "jacobian": jacobian,
        "gradient": np.einsum("nra,nr->na", jacobian, rows),
        "norm2": (rows**2).sum(axis=1),
        "errors": errors,
    }


def held(program, states, q, gradient):
    """DOFs at a limit that their gradient pushes outwards, bool [n, dofs]; rotations are never held."""
    result = np.zeros(gradient.shape, dtype=bool)
    for c, (a, component) in enumerate(coordinate_names(program)):
        if not component:
            k = program.dofs.index(a)
            low = (q[:, c] <= states.lower[:, k]) & (gradient[:, k] > 0.0)
            high = (q[:, c] >= states.upper[:, k]) & (gradient[:, k] < 0.0)
            result[:, k] = low | high
    return result


def damped_steps(source, states, here, frozen):
    """Steps from the trials that solve (J'J + damping) s = -J'r over the DOFs that are not held, [n, dofs].

    Args:
        source: The iteration.
        states: Lanes whose damping_factor is that of the step.
        here: Evaluation of their trials.
        frozen: DOFs that are held, [n, dofs].
    """
    alone = (here["jacobian"] != 0.0).any(axis=0).sum(axis=1) == 1
    if not source.space.in_rows:
        step_of = step_of_dofs
    elif alone.any():
        step_of = partial(step_of_rows_beside_diagonal, alone=alone)
    else:
        step_of = step_of_rows
    steps = np.zeros(frozen.shape)
    for i, free in enumerate(~frozen):
        damping = LaneDamping(source, states.damping_factor[i], here["norm2"][i])
        steps[i] = -step_of(here["rows"][i], here["jacobian"][i], free, damping)
    return steps


@dataclass(frozen=True)
class LaneDamping:
    """The damping of one lane: a share of |r|^2, and a floor in proportion to each entry of a diagonal."""

    source: IterationSource
    factor: float
    norm2: float

    def __call__(self, own, largest, smallest):
        damping, rounding = self.source.damping, self.source.lanes.rounding
        floor = (own * (smallest < 1.0) + smallest * largest) * damping.least * rounding
        return self.factor * (self.share(largest) + floor)

    def share(self, largest):
        return min(self.source.damping.share * self.norm2, self.source.damping.most * largest)


def step_of_dofs(rows, jacobian, free, damping):
    own, free_columns = (jacobian**2).sum(axis=0), jacobian[:, free]
    system = free_columns.T @ free_columns + np.diag(damping(own, own.max(), damping.source.damping.smallest)[free])
    step = np.zeros(len(own))
    step[free] = np.linalg.solve(system, free_columns.T @ rows)
    return step


def step_of_rows(rows, jacobian, free, damping):
    gram = (jacobian * free) @ jacobian.T
    own = np.diagonal(gram)
    return free * (
        jacobian.T @ np.linalg.solve(gram + np.diag(damping(own, max(own.max(), NO_ROW), SMALLEST_ROW)), rows)
    )


def step_of_rows_beside_diagonal(rows, jacobian, free, damping, alone):
    """The rows that are alone on one DOF make up D and p; the others are solved for in their space."""
    largest = (jacobian**2).sum(axis=0).max()
    own, pull = (jacobian[alone] ** 2).sum(axis=0), jacobian[alone].T @ rows[alone]
    inverse = free / (own + damping.factor * (damping.share(largest) + largest * SMALLEST_ROW))
    others = jacobian[~alone]
    gram = (others * inverse) @ others.T
    compliance = 1.0 + damping.factor * COMPLIANT_SHARE * damping.source.lanes.rounding * np.diagonal(gram)
    force = np.linalg.solve(gram + np.diag(compliance), rows[~alone] - others @ (inverse * pull))
    return inverse * (pull + others.T @ force)


def moved(program, states, steps):
    """The next trials: clamped sums, and exp(w) q for rotations, of at most half a turn."""
    trial = states.trial.copy()
    for c, (a, component) in enumerate(coordinate_names(program)):
        k = program.dofs.index(a)
        if not component:
            trial[:, c] = np.clip(states.trial[:, c] + steps[:, k], states.lower[:, k], states.upper[:, k])
        elif component == "x":
            w = steps[:, k : k + 3]
            length = np.linalg.norm(w, axis=1, keepdims=True)
            w = np.where(length > np.pi, w * (np.pi / np.maximum(length, np.pi)), w)
            trial[:, c : c + 4] = quaternion_multiply(quaternion_exp(w), states.trial[:, c : c + 4])
    return trial


def lengths2_of(source, jacobian, free):
    """Squared lengths of the columns of J, [n, dofs], or of the longest row over the free DOFs, [n, 1]."""
    if len(source.step.lengths2()) > 1:
        return (jacobian**2).sum(axis=1)
    return (jacobian**2 * free[:, None]).sum(axis=2).max(axis=1, keepdims=True)


def reference_iteration(case, program, states, source):
    """States after one iteration of a source, and the steps from their trials."""
    damping = source.damping
    here = evaluation(case, program, states.trial)
    frozen = held(program, states, states.trial, here["gradient"])
    at_trial = {"q": states.trial, "lengths2": lengths2_of(source, here["jacobian"], ~frozen)}
    at_trial |= {name: here[name] for name in ("gradient", "errors", "norm2")}
    better = here["norm2"] < states.norm2
    progress = here["norm2"] < (1.0 - damping.progress) * states.norm2

    def best(name, trial):
        old = getattr(states, name)
        return np.where(better.reshape(-1, *[1] * (old.ndim - 1)), trial, old)

    factor = states.damping_factor
    after = replace(
        states,
        **{name: best(name, value) for name, value in at_trial.items()},
        damping_factor=np.where(progress, np.maximum(factor * damping.down, 1.0), factor * damping.up),
        steps=states.steps + 1.0,
    )
    steps = damped_steps(source, after, here, frozen)
    return replace(after, trial=moved(program, after, steps)), steps


def finished(states, damping, iterations):
    """Whether each lane is at its floor, has a hopeless damping, or is out of iterations."""
    return (states.norm2 <= states.floor2) | (states.damping_factor > damping.factor_max) | (states.steps >= iterations)


DAMPING = Damping(share=0.05, most=0.5, least=4.0, progress=1e-3, up=4.0, down=0.25, factor_max=1e4, smallest=1e-4)


def program_of(case, lanes):
    return case.program(dofs=case.touched(), half_angle_error=half_angle_error(lanes))


def single(states):
    """States rounded to float32."""
    rounded = {field.name: getattr(states, field.name).astype(np.float32) for field in fields(States)}
    return replace(states, **{name: values.astype(np.float64) for name, values in rounded.items()})
