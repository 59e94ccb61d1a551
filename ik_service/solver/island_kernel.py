"""Source of the kernel that solves one island: a straight line of packet operations, with refill of finished lanes.

Every lane of a packet is an attempt: one seed of one problem. The line evaluates the trials, accepts or rejects lane by
lane with selects, solves the damped normal equations and proposes the next trials; it has no branches. When some lane
has finished, the kernel leaves the line, keeps that lane's answer, and gives the lane its next attempt: the next seed
of the problem if this one failed, else the next problem. So hard problems cost more and easy ones nothing.
"""

import textwrap
from collections.abc import Sequence

import warp as wp

from ik_service.compiler import IslandProgram, packet_lines, packet_name
from ik_service.robots import RobotModel
from objectives.expression import Expression

NOT_EVALUATED = 1.0e30  # |r|^2 before the first evaluation: any trial is better
IDLE_LANE = wp.constant(-2)  # problem of a lane that has nothing left to do; -1 before its first
HELD = 1.0e12  # added to the pivot of a DOF held at a limit: its step vanishes and it leaves the others alone


def indent(lines: Sequence[str], depth: int) -> str:
    """Lines as a block, four columns per depth."""
    return textwrap.indent("\n".join(lines), "    " * depth)


class SolveSource:
    """Source of the solve kernel of one program.

    Args:
        program: The island's arithmetic.
        robot: The robot.
        width: Lanes of a packet.
        arrays: Names of the data arrays (objective, field) in the order of the kernel's arguments.
    """

    def __init__(
        self, program: IslandProgram, robot: RobotModel, width: int, arrays: Sequence[tuple[int, str]]
    ) -> None:
        self.program, self.robot, self.width = program, robot, width
        self.arrays = {key: f"array{k}" for k, key in enumerate(arrays)}
        self.lane = "[lane]" if width > 1 else ""

    # ------------------------------------------------------------------ the straight line
    def iteration(self) -> list[str]:
        """Evaluate, accept or reject, solve, propose."""
        return [*self._evaluate(), *self._accept(), *self._factor(), *self._propose(), "steps = p_count(steps)"]

    def _evaluate(self) -> list[str]:
        program, names = self.program, dict[Expression, str]()
        lines = []
        for half, (active, multiplier, offset) in program.halves.items():
            angle = f"trial{active}"
            if multiplier != 1.0:
                angle = f"p_scale({angle}, {multiplier!r})"
            if offset != 0.0:
                angle = f"p_add_number({angle}, {offset!r})"
            lines.append(f"{half} = p_half_turn({angle})")
        outputs = {"trial_norm2": program.norm2}
        for a, node in zip(program.dofs, program.gradient, strict=True):
            outputs[f"trial_gradient{a}"] = node
        for a, row in zip(program.dofs, program.hessian, strict=True):
            outputs |= {f"trial_hessian{a}_{b}": node for b, node in zip(program.dofs, row, strict=False)}
        outputs |= {f"trial_{name}": node for name, node in self.error_outputs().items()}
        lines += packet_lines(list(outputs.values()), names)
        return lines + [f"{name} = {packet_name(node, names)}" for name, node in outputs.items()]

    def error_outputs(self) -> dict[str, Expression]:
        """Squared errors of targets by the name of the lane's state."""
        found = {}
        for error in self.program.errors:
            if error.position2 is not None:
                found[f"position2_{error.target}"] = error.position2
            if error.chord2 is not None:
                found[f"chord2_{error.target}"] = error.chord2
        return found

    def _accept(self) -> list[str]:
        """A trial of lower cost replaces the accepted configuration; NaN compares false and so is rejected."""
        kept = [f"{name}{a}" for a in self.program.dofs for name in ("q", "gradient")]
        kept += [f"hessian{a}_{b}" for a, b in self._pairs()] + list(self.error_outputs())

        def trial(name: str) -> str:
            return f"trial{name[1:]}" if name[0] == "q" else f"trial_{name}"

        lines = [f"{name} = p_select_less(trial_norm2, norm2, {trial(name)}, {name})" for name in kept]
        lines.append("lower_boost = p_max_number(p_scale(boost, BOOST_DOWN), 1.0)")
        lines.append("boost = p_select_less(trial_norm2, norm2, lower_boost, p_scale(boost, BOOST_UP))")
        lines.append("norm2 = p_select_less(trial_norm2, norm2, trial_norm2, norm2)")
        return lines

    def _pairs(self) -> list[tuple[int, int]]:
        return [(a, b) for k, a in enumerate(self.program.dofs) for b in self.program.dofs[: k + 1]]

    def _factor(self) -> list[str]:
        """Cholesky factor of J'J + damping I, column by column, and the step."""
        dofs = self.program.dofs
        lines = [f"largest = hessian{dofs[0]}_{dofs[0]}"]
        lines += [f"largest = p_max(largest, hessian{a}_{a})" for a in dofs[1:]]
        lines.append("share = p_min(p_scale(norm2, DAMPING_SHARE), p_scale(largest, DAMPING_MAX))")
        lines.append("damping = p_mul(boost, p_add(share, damping_least))")
        for j, a in enumerate(dofs):
            lines.append(f"pivot = p_add(hessian{a}_{a}, damping)")
            lines.append(f"pivot = p_add(pivot, p_held(q{a}, gradient{a}, lower{a}, upper{a}, {HELD}))")
            lines += [f"pivot = p_sub(pivot, p_mul(factor{a}_{b}, factor{a}_{b}))" for b in dofs[:j]]
            lines.append(f"inverse{a} = p_inverse_sqrt(pivot, PIVOT_MIN)")
            for c in dofs[j + 1 :]:
                lines.append(f"entry = hessian{c}_{a}")
                lines += [f"entry = p_sub(entry, p_mul(factor{c}_{b}, factor{a}_{b}))" for b in dofs[:j]]
                lines.append(f"factor{c}_{a} = p_mul(entry, inverse{a})")
        for j, a in enumerate(dofs):
            lines.append(f"entry = gradient{a}")
            lines += [f"entry = p_sub(entry, p_mul(factor{a}_{b}, step{b}))" for b in dofs[:j]]
            lines.append(f"step{a} = p_mul(entry, inverse{a})")
        for j, a in reversed(list(enumerate(dofs))):
            lines += [f"step{a} = p_sub(step{a}, p_mul(factor{c}_{a}, step{c}))" for c in dofs[j + 1 :]]
            lines.append(f"step{a} = p_mul(step{a}, inverse{a})")
        return lines

    def _propose(self) -> list[str]:
        return [f"trial{a} = p_clamp(p_sub(q{a}, step{a}), lower{a}, upper{a})" for a in self.program.dofs]

    # ------------------------------------------------------------------ between attempts, for one lane
    def refill(self) -> list[str]:
        """Keep the answer of a lane that has finished, and give the lane its next attempt."""
        lane = self.lane
        over = f"norm2{lane} <= floor2{lane} or boost{lane} > BOOST_MAX or steps{lane} >= iterations"
        return [
            f"if {over}:",
            f"    p = int(problem{lane})",
            f"    s = int(seed{lane}) + 1",
            "    if p >= 0:",
            indent(self._keep_answer(), 2),
            "    if s >= seeds:",
            "        p = -1",
            "        s = 0",
            "        if next_problem < end_problem:",
            "            p = problem_list[next_problem]",
            "            island = island_list[next_problem]",
            f"            island_of{lane} = island",
            "            next_problem += 1",
            f"            floor2{lane} = RESIDUAL_FLOOR2 * lightest2[p, island]",
            f"            damping_least{lane} = DAMPING_MIN * heaviest2[p, island]",
            indent(self._load_data(), 3),
            f"        elif problem{lane} != IDLE_LANE:",
            "            active_lanes -= 1",
            "        if p < 0:",
            "            p = IDLE_LANE",
            f"    problem{lane} = p",
            f"    seed{lane} = s",
            "    if p >= 0:",
            indent(self._load_seed(), 2),
            f"    norm2{lane} = {NOT_EVALUATED}",
            f"    boost{lane} = 1.0",
            f"    steps{lane} = 0",
        ]

    def _keep_answer(self) -> list[str]:
        """Judge the attempt that has ended, and keep it if it is the best of its problem."""
        lane, dofs = self.lane, self.program.dofs
        lines = [f"island = int(island_of{lane})", "blocked = int(0)", "slope = float(0.0)"]
        for a in dofs:
            g, q = f"gradient{a}{lane}", f"q{a}{lane}"
            lines += [
                f"cosine2 = {g} * {g} / (hessian{a}_{a}{lane} * norm2{lane} + 1.0e-30)",
                f"if ({q} <= lower{a} and {g} > 0.0) or ({q} >= upper{a} and {g} < 0.0):",
                "    if cosine2 > COSINE_MAX * COSINE_MAX:",
                "        blocked = 1",
                "else:",
                "    slope = wp.max(slope, cosine2)",
            ]
        lines += [
            "ended = int(RUNNING)",
            f"if boost{lane} > BOOST_MAX:",
            "    ended = STALLED",
            "light = lightest2[p, island]",
            "heavy = heaviest2[p, island]",
            f"status = phase_after(norm2{lane}, light, heavy, slope, blocked, ended, iterations - steps{lane})",
            f"if norm2{lane} >= {NOT_EVALUATED}:",
            "    status = INVALID",
            "met = int(NO_TARGET)",
        ]
        for name in self.error_outputs():
            error = f"wp.sqrt({name}{lane})"
            tolerance = "tolerances[0]"
            if name.startswith("chord2"):
                error, tolerance = f"2.0 * wp.asin(wp.min(0.5 * {error}, 1.0))", "tolerances[1]"
            lines += ["if met != 0:", "    met = 0", f"    if {error} <= MARGIN * {tolerance}:", "        met = 1"]
        lines += [
            "success = met == 1 and status != INVALID",
            "if met == NO_TARGET:",
            "    success = status == CONVERGED",
            f"rank = attempt_rank(success, seed{lane}, 0.5 * norm2{lane})",
            "if rank < winner_rank[p, island]:",
            indent(self._write_winner(), 1),
            "if success:",
            "    s = seeds",
        ]
        return lines

    def _write_winner(self) -> list[str]:
        lane, robot = self.lane, self.robot
        lines = [
            "winner_rank[p, island] = rank",
            f"winner_cost[p, island] = 0.5 * norm2{lane}",
            f"winner_seed[p, island] = seed{lane}",
            f"winner_iterations[p, island] = steps{lane}",
            "winner_status[p, island] = status",
            "winner_met[p, island] = met",
        ]
        for dof, active in enumerate(robot.dof_active):
            if active in self.program.dofs:
                c, leader = robot.dof_coordinate[dof], f"q{active}{lane}"
                if robot.active_dof[active] == dof:
                    lines.append(f"winner_joint_q[p, {c}] = {leader}")
                else:
                    value = f"{float(robot.dof_multiplier[dof])!r} * {leader} + {float(robot.dof_offset[dof])!r}"
                    lines.append(f"winner_joint_q[p, {c}] = wp.clamp({value}, dof_lower[{dof}], dof_upper[{dof}])")
        return lines

    def _load_data(self) -> list[str]:
        lines = []
        for one in self.program.inputs:
            array = self.arrays[one.objective, one.field]
            lines.append(f"{one.name}{self.lane} = {array}[wp.min(p, {array}.shape[0] - 1), {one.column}]")
        return lines

    def _load_seed(self) -> list[str]:
        lines = []
        for a in self.program.dofs:
            c = int(self.robot.dof_coordinate[self.robot.active_dof[a]])
            value = f"seed_value(p, s, {a}, start_joint_q[p, {c}], mid_joint_q[{c}], settings, draw_lower, draw_upper, "
            value += "drawn, increment, tree, place, tree_hash)"
            lines += [f"trial{a}{self.lane} = {value}", f"q{a}{self.lane} = trial{a}{self.lane}"]
        return lines

    # ------------------------------------------------------------------ the kernel
    def text(self, name: str) -> str:
        """Source of the kernel function."""
        dofs, errors = self.program.dofs, self.error_outputs()
        packets = [f"{prefix}{a}" for a in dofs for prefix in ("trial", "q", "gradient")]
        packets += [f"hessian{a}_{b}" for a, b in self._pairs()]
        packets += [*errors, *(one.name for one in self.program.inputs)]
        limits = [line for a in dofs for line in (f"lower{a} = limit_lower[{a}]", f"upper{a} = limit_upper[{a}]")]
        refill = self.refill()
        if self.width > 1:
            refill = ["lane = int(0)", f"while lane < {self.width}:", indent(refill, 1), "    lane += 1"]
        data = "".join(f"    {array}: wp.array2d[float],\n" for array in self.arrays.values())
        return f"""def {name}(
    problem_count: int,
    chunk: int,
    problem_list: wp.array[wp.int32],
    island_list: wp.array[wp.int32],
    settings: wp.array[wp.int32],
    tolerances: wp.array[float],
    lightest2: wp.array2d[float],
    heaviest2: wp.array2d[float],
    limit_lower: wp.array[float],
    limit_upper: wp.array[float],
    dof_lower: wp.array[float],
    dof_upper: wp.array[float],
    mid_joint_q: wp.array[float],
    start_joint_q: wp.array2d[float],
    draw_lower: wp.array[float],
    draw_upper: wp.array[float],
    drawn: wp.array[wp.int32],
    increment: wp.array[wp.uint32],
    tree: wp.array[wp.int32],
    place: wp.array[wp.uint32],
    tree_hash: wp.array2d[wp.uint32],
{data}    winner_joint_q: wp.array2d[float],
    winner_rank: wp.array2d[wp.int64],
    winner_cost: wp.array2d[float],
    winner_seed: wp.array2d[wp.int32],
    winner_iterations: wp.array2d[wp.int32],
    winner_status: wp.array2d[wp.int32],
    winner_met: wp.array2d[wp.int32],
):
    next_problem = int(wp.tid() * chunk)
    end_problem = wp.min(next_problem + chunk, problem_count)
    seeds = settings[SEEDS]
    iterations = settings[ITERATIONS]
{indent(limits, 1)}
{indent([f"{packet} = P(0.0)" for packet in packets], 1)}
    norm2 = P(0.0)
    floor2 = P(0.0)
    damping_least = P(0.0)
    boost = P(1.0)
    steps = I(0)
    seed = I({2**30})
    problem = I(-1)
    island_of = I(0)
    active_lanes = int({self.width})
    while active_lanes > 0:
        if p_any_done(norm2, boost, floor2, steps, BOOST_MAX, iterations):
{indent(refill, 3)}
        if active_lanes > 0:
{indent(self.iteration(), 3)}
"""
