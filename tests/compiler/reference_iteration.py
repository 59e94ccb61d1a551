"""One Levenberg-Marquardt iteration in NumPy, as the docstrings of the compiler state it, and states of many lanes.

Rows and derivatives are those of the oracles; nothing of the program is evaluated here but the errors of its targets.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from ik_service.compiler import LaneState, coordinate_names, error_outputs
from ik_service.robots.transforms import quaternion_exp, quaternion_multiply
from tests.compiler.oracles import columns, evaluated

NOT_EVALUATED = 1e30


@dataclass(frozen=True)
class States:
    """States of n lanes, float64; the first dimension is the lane."""

    q: np.ndarray  # [n, coordinates]
    trial: np.ndarray
    gradient: np.ndarray  # [n, dofs]
    hessian: np.ndarray  # [n, dofs, dofs]
    errors: np.ndarray  # [n, errors]
    norm2: np.ndarray  # [n]
    boost: np.ndarray
    steps: np.ndarray
    lower: np.ndarray  # [n, dofs]
    upper: np.ndarray
    inputs: np.ndarray  # [n, inputs]
    floor2: np.ndarray
    damping_least: np.ndarray

    @classmethod
    def start(cls, case, program, joint_q, boost=1.0, floor2=0.0, damping_least=1e-7):
        """Lanes that have not been evaluated yet; the numbers may differ from lane to lane."""
        n, dofs, robot = len(joint_q), len(program.dofs), case.robot
        trial = joint_q[:, columns(robot, program)]
        limits = [np.tile(ends[list(program.dofs)], (n, 1)) for ends in limits_of(robot)]
        inputs = np.tile(case.data(program), (n, 1))
        errors = np.zeros((n, len(error_outputs(program))))
        lanes = [np.zeros(n) + number for number in (NOT_EVALUATED, boost, 0.0, floor2, damping_least)]
        blank = [np.zeros((n, dofs)), np.zeros((n, dofs, dofs))]
        return cls(trial.copy(), trial, *blank, errors, *lanes[:3], *limits, inputs, *lanes[3:])

    def packed(self, program):
        """As the native line holds them, [n, places]."""
        below = coupled_places(program)
        diagonal = np.diagonal(self.hessian, axis1=1, axis2=2)
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        parts["hessian"] = np.hstack([diagonal, self.hessian[:, below[0], below[1]]])
        return np.column_stack(list(parts.values()))

    @classmethod
    def unpacked(cls, places, program):
        """From what the native line left, by the places that `LaneState` names."""
        at, n, d = LaneState.of(program), len(places), len(program.dofs)
        hessian, below = np.zeros((n, d, d)), coupled_places(program)
        hessian[:, range(d), range(d)] = places[:, at.diagonal : at.diagonal + d]
        hessian[:, below[0], below[1]] = places[:, at.diagonal + d : at.errors]
        hessian[:, below[1], below[0]] = hessian[:, below[0], below[1]]
        groups = [places[:, at.q : at.trial], places[:, at.trial : at.gradient], places[:, at.gradient : at.diagonal]]
        groups += [hessian, places[:, at.errors : at.norm2], *places[:, at.norm2 : at.lower].T]
        groups += [places[:, at.lower : at.upper], places[:, at.upper : at.inputs], places[:, at.inputs : at.floor2]]
        return cls(*groups, *places[:, at.floor2 :].T)


def coupled_places(program):
    """Rows and columns of the entries of J'J below the diagonal that the state holds."""
    rows, columns = [[program.dofs.index(pair[side]) for pair in program.coupled] for side in (0, 1)]
    return rows, columns


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
        "gradient": np.einsum("nra,nr->na", jacobian, rows),
        "hessian": np.einsum("nra,nrb->nab", jacobian, jacobian),
        "norm2": (rows**2).sum(axis=1),
        "errors": errors,
    }


def held(program, states):
    """DOFs at a limit that their gradient pushes outwards, bool [n, dofs]; rotations are never held."""
    result = np.zeros(states.gradient.shape, dtype=bool)
    for c, (a, component) in enumerate(coordinate_names(program)):
        if not component:
            k = program.dofs.index(a)
            low = (states.q[:, c] <= states.lower[:, k]) & (states.gradient[:, k] > 0.0)
            high = (states.q[:, c] >= states.upper[:, k]) & (states.gradient[:, k] < 0.0)
            result[:, k] = low | high
    return result


def damped_steps(program, states, damping):
    """Steps -(J'J + damping)^-1 J'r over the DOFs that are not held, [n, dofs]."""
    steps = np.zeros(states.gradient.shape)
    frozen = held(program, states)
    for i, free in enumerate(~frozen):
        largest = np.diagonal(states.hessian[i]).max()
        share = min(damping.share * states.norm2[i], damping.most * largest)
        mu = states.boost[i] * (share + states.damping_least[i])
        system = states.hessian[i][np.ix_(free, free)] + mu * np.eye(free.sum())
        steps[i, free] = -np.linalg.solve(system, states.gradient[i, free])
    return steps


def moved(program, states, steps):
    """Trials: clamped sums, and exp(w) q for rotations, of at most half a turn."""
    trial = states.q.copy()
    for c, (a, component) in enumerate(coordinate_names(program)):
        k = program.dofs.index(a)
        if not component:
            trial[:, c] = np.clip(states.q[:, c] + steps[:, k], states.lower[:, k], states.upper[:, k])
        elif component == "x":
            w = steps[:, k : k + 3]
            length = np.linalg.norm(w, axis=1, keepdims=True)
            w = np.where(length > np.pi, w * (np.pi / np.maximum(length, np.pi)), w)
            trial[:, c : c + 4] = quaternion_multiply(quaternion_exp(w), states.q[:, c : c + 4])
    return trial


def reference_iteration(case, program, states, damping):
    """States after one iteration, and the DOFs held in it."""
    new = evaluation(case, program, states.trial)
    better = new["norm2"] < states.norm2

    def accepted(name, trial):
        old = getattr(states, name)
        return np.where(better.reshape(-1, *[1] * (old.ndim - 1)), trial, old)

    lowered = np.maximum(states.boost * damping.down, 1.0)
    after = replace(
        states,
        q=accepted("q", states.trial),
        **{name: accepted(name, value) for name, value in new.items()},
        boost=np.where(better, lowered, states.boost * damping.up),
        steps=states.steps + 1.0,
    )
    steps = damped_steps(program, after, damping)
    return replace(after, trial=moved(program, after, steps)), steps


def finished(states, damping, iterations):
    """Whether each lane is at its floor, has a hopeless boost, or is out of iterations."""
    return (states.norm2 <= states.floor2) | (states.boost > damping.boost_max) | (states.steps >= iterations)
