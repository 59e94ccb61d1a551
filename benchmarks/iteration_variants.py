"""Iterations that the solver does not have: each changes one thing of the one that it has.

The lines of an iteration are text, so a variant exchanges those that it changes. In a block of its own a name may stand
for another number than outside: that is how `Monotone` takes its steps from the best configuration.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

import numpy as np
from compared_robots import ComparedRobot

from ik_service.compiler import Damping, IslandProgram, IterationSource, Lanes, statements
from ik_service.compiler.program.chain import build_chain, compose, constants
from objectives.expression import Expression, ExpressionGraph, Scalar, maximum, sqrt
from objectives.frame_algebra import Vector, add, cross, dot, scale, subtract, vector

FRESH = "(steps < -0.5f)"  # the trial is the seed


def redefined(lines: list[str], name: str, text: str) -> list[str]:
    """Return lines in which a name is defined by another text."""
    heads = tuple(f"const {kind} {name} = " for kind in ("F", "auto"))
    assert sum(line.startswith(heads) for line in lines) == 1, name
    return [f"{line.split(' = ')[0]} = {text};" if line.startswith(heads) else line for line in lines]


# ---------------------------------------------------------------------- where steps start, and what raises the damping


class LatestKept(IterationSource):
    """Keeps the latest trial instead of the best, and compares with it."""

    def _keep(self) -> list[str]:
        return redefined(super()._keep(), "better", f"norm2 < {self._number(1e29)}")


class ErrorAlone(IterationSource):
    """Damps in proportion to the error alone, whether a trial is better or worse (Chan and Lawrence 1988)."""

    def _factor(self) -> list[str]:
        return [line.replace("boost * ", "") if "F damping =" in line else line for line in super()._factor()]


class Remembering(IterationSource):
    """Remembers further numbers from iteration to iteration; what they are at first is undefined."""

    further: ClassVar[tuple[str, ...]] = ()

    def __init__(self, program: IslandProgram, lanes: Lanes, damping: Damping, data_columns: int = 0) -> None:
        super().__init__(program, lanes, damping, data_columns)
        self._places = {name: self.state.size + k for k, name in enumerate(self._further())}
        self.state = replace(self.state, size=self.state.size + len(self._places))

    def _further(self) -> tuple[str, ...]:
        return self.further

    def _loaded(self) -> dict[str, int]:
        return super()._loaded() | {f"old_{name}": place for name, place in self._places.items()}


class Monotone(Remembering):
    """Goes back to the best configuration after a trial that is worse, as is usual; J'J has to be kept for that."""

    def _further(self) -> tuple[str, ...]:
        return (*(f"hessian{a}_{b}" for a, b in self.program.coupled), *self.further)

    def _keep(self) -> list[str]:
        entries = [name for name in self._places if name.startswith("hessian")]
        kept = [(name, self.lanes.choose("better", name, f"old_{name}")) for name in entries]
        return [*super()._keep(), *(f"const F best_{name} = {value};" for name, value in kept)]

    def _factor(self) -> list[str]:
        names = [(name, at_trial) for name, at_trial, _ in self._kept() if not name.startswith("error")]
        names += [(name, name) for name in self._places if name.startswith("hessian")]
        return ["{", *(f"const F {at_trial} = best_{name};" for name, at_trial in names), *super()._factor()]

    def _propose(self) -> list[str]:
        entries = [(name, place) for name, place in self._places.items() if name.startswith("hessian")]
        return [*super()._propose(), *(f"s[{place}] = {name};" for name, place in entries), "}"]


class GainRatio(Monotone):
    """Raises the damping where a step has brought less than a quarter of what was predicted, lowers it from three."""

    further = ("predicted",)
    floor: ClassVar[float] = 1.0

    def _keep(self) -> list[str]:
        number, lanes, floor = self._number, self.lanes, self._number(self.floor)
        relaxed = lanes.choose(f"lowered > {floor}", "lowered", lanes.everywhere(floor))
        good = lanes.choose(f"old_norm2 - norm2 > {number(0.75)} * old_predicted", relaxed, "old_boost")
        poor = f"!(old_norm2 - norm2 > {number(0.25)} * old_predicted)"
        boost = lanes.choose(poor, f"(old_boost * {number(self.damping.up)})", good)
        return redefined(super()._keep(), "boost", lanes.choose(FRESH, "old_boost", boost))

    def _propose(self) -> list[str]:
        decrease = " + ".join(f"(gradient{a} + damping * step{a}) * step{a}" for a in self.program.dofs)
        return [f"s[{self._places['predicted']}] = {decrease};", *super()._propose()]


class FreeGainRatio(GainRatio):
    """The same with a boost that may fall to a tenth."""

    floor = 0.1


class Nielsen(Monotone):
    """Damping by the cube of the gain ratio, from a share of J'J's largest entry on (Nielsen 1999)."""

    further = ("predicted", "mu", "nu")
    first: ClassVar[float] = 0.1

    def _keep(self) -> list[str]:
        number, lanes = self._number, self.lanes
        third, two = lanes.everywhere(number(1 / 3)), lanes.everywhere(number(2.0))
        hopeless = lanes.everywhere(number(2.0 * self.damping.boost_max))
        lines = [
            *super()._keep(),
            *self._largest("top"),
            f"const F away = {number(2.0)} * (old_norm2 - norm2) / (old_predicted + {number(1e-30)}) - {number(1.0)};",
            f"const F cubed = {number(1.0)} - away * away * away;",
            f"const F cut = {lanes.choose(f'cubed > {number(1 / 3)}', 'cubed', third)};",
            f"const F next = {lanes.choose('better', '(old_mu * cut)', '(old_mu * old_nu)')};",
            f"const F mu = {lanes.choose(FRESH, f'({number(self.first)} * top)', 'next')};",
            f"const F nu = {lanes.choose(lanes.either('better', FRESH), two, '(old_nu * 2.0f)')};",
        ]
        lines = [line for line in lines if not line.startswith("const F boost")]
        boost = lanes.choose(f"nu > {number(600.0)}", hopeless, lanes.everywhere(number(1.0)))
        return [*lines, f"const F boost = {boost};"]

    def _largest(self, name: str) -> list[str]:
        entries = [f"hessian{a}_{a}" for a in self.program.dofs]
        rest = [f"{name} = {self.lanes.choose(f'{entry} > {name}', entry, name)};" for entry in entries[1:]]
        return [f"F {name} = {entries[0]};", *rest]

    def _factor(self) -> list[str]:
        least = self._number(self.damping.least * self.lanes.rounding)
        return redefined(super()._factor(), "damping", f"mu + largest * {least}")

    def _propose(self) -> list[str]:
        decrease = " + ".join(f"(gradient{a} + mu * step{a}) * step{a}" for a in self.program.dofs)
        stored = {"predicted": decrease, "mu": "mu", "nu": "nu"}
        return [*(f"s[{self._places[name]}] = {text};" for name, text in stored.items()), *super()._propose()]


class DiagonalDamping(IterationSource):
    """Damps every DOF in proportion to its entry of J'J (Marquardt 1963), and a tenth of the usual."""

    def _factor(self) -> list[str]:
        return [self._scaled(line) for line in super()._factor()]

    def _scaled(self, line: str) -> str:
        tenth = self._number(0.1)
        if line.startswith("const F pivot"):
            a = line.split()[2].removeprefix("pivot")
            return line.replace("+ damping", f"+ damping * (hessian{a}_{a} / largest + {tenth})")
        if line.startswith("const F free"):
            return line.replace("damping", f"(damping * {tenth})")
        return line


# ---------------------------------------------------------------------- arithmetic


class SquareRoots(IterationSource):
    """Factors L L' (Cholesky) instead of L D L'."""

    def _factor(self) -> list[str]:
        lines = []
        for line in super()._factor():
            head, equals, value = line.partition(" = ")
            if head.startswith(("const F pivot", "const F scaled")):
                value = value.replace("* scaled", "* factor")
            elif head.startswith("const F free"):
                one, _, sound = value.removesuffix(";").partition(" / ")
                value = f"{one} / {self.lanes.sqrt(sound)};"
            lines.append(head + equals + value)
        return lines

    def _solve(self) -> list[str]:
        lines = []
        for line in super()._solve():
            head, _, value = line.removesuffix(";").partition(" = ")
            a = head.removeprefix("const F half_step").removeprefix("const F step")
            value = value.replace(f" * inverse{a}", "", 1)
            lines.append(f"{head} = ({value}) * inverse{a};")
        return lines


class PivotsAsTheyCome(IterationSource):
    """Lets a pivot be as small as rounding makes it."""

    def _factor(self) -> list[str]:
        tiny, lines = self._number(1e-20), super()._factor()
        return [line.replace("> damping", f"> {tiny}") if "F free" in line else line for line in lines]


class ArmColumns(IterationSource):
    """Makes J of the axes and the origin of the link of an arm with one target, in a way of its own."""

    case: ClassVar[ComparedRobot]

    def __init__(self, program: IslandProgram, lanes: Lanes, damping: Damping, data_columns: int = 0) -> None:
        super().__init__(self.changed(program), lanes, damping, data_columns)

    def changed(self, program: IslandProgram) -> IslandProgram:
        """Return the program with a J of its own."""
        raise NotImplementedError

    def axes_and_velocities(self, program: IslandProgram) -> list[tuple[Vector, Vector]]:
        """Return the axis of every DOF, and how fast the link's origin moves with it, world frame."""
        robot, found = self.case.robot, []
        body, transform = robot.link_frame(self.case.links[0])
        chain = build_chain(robot, {body}, program.graph, program.dofs)
        tip = compose(chain.frames[body], constants(transform)).position
        for a in program.dofs:
            dof = int(robot.active_dof[a])
            joint = int(np.searchsorted(robot.joint_qd_start, dof, side="right")) - 1
            axis = vector(chain.twists[dof][3:])
            found.append((axis, cross(axis, subtract(tip, chain.frames[joint].position))))
        return found

    def weights(self, program: IslandProgram) -> list[Expression]:
        """Return the weights of the rows."""
        return [program.graph.variable(one.name) for one in program.inputs if one.field == "row_weights"]


def with_jacobian(program: IslandProgram, jacobian: list[list[Scalar]]) -> IslandProgram:
    """Return a program with another J, [rows][dofs]."""
    zero, dofs = program.graph.constant(0.0), range(len(program.dofs))
    gradient = [total(zero, (row[i] * r for row, r in zip(jacobian, program.rows, strict=True))) for i in dofs]
    hessian = [tuple(total(zero, (row[i] * row[j] for row in jacobian)) for j in range(i + 1)) for i in dofs]
    return replace(program, gradient=tuple(gradient), hessian=tuple(hessian))


def total(zero: Expression, terms: Iterable[Scalar]) -> Expression:
    """Sum of expressions."""
    for term in terms:
        zero = zero + term
    return zero


class OwnOrigin(ArmColumns):
    """Velocities of the link's own origin instead of twists at the world's."""

    def changed(self, program: IslandProgram) -> IslandProgram:
        """Return the program with these rows of J."""
        velocities, w = [v for _, v in self.axes_and_velocities(program)], self.weights(program)
        position: list[list[Scalar]] = [[w[k] * v[k] for v in velocities] for k in range(3)]
        return with_jacobian(program, [*position, *(list(row) for row in program.jacobian[3:])])


class SmallAngles(ArmColumns):
    """Axes as columns of the rotation, which is J only where the error is small."""

    def changed(self, program: IslandProgram) -> IslandProgram:
        """Return the program with these rows of J."""
        axes, w = [axis for axis, _ in self.axes_and_velocities(program)], self.weights(program)
        rotation: list[list[Scalar]] = [[w[3 + k] * axis[k] for axis in axes] for k in range(3)]
        return with_jacobian(program, [*(list(row) for row in program.jacobian[:3]), *rotation])


class EqualWeights(SmallAngles):
    """The true J'J and J'r from axes alone, as rotation rows of equal weights allow."""

    def changed(self, program: IslandProgram) -> IslandProgram:
        """Return the program with the terms of the angle's size added."""
        small, axes = super().changed(program), [axis for axis, _ in self.axes_and_velocities(program)]
        zero, dofs, chord2 = program.graph.constant(0.0), range(len(axes)), program.errors[0].chord2
        assert chord2 is not None
        along = [dot(axis, vector(program.rows[3:])) for axis in axes]
        less, weight = sqrt(maximum(1.0 - 0.25 * chord2, 0.0)) - 1.0, self.weights(program)[3]
        gradient = [small.gradient[i] + less * weight * along[i] + zero for i in dofs]
        hessian = [tuple(small.hessian[i][j] - 0.25 * along[i] * along[j] for j in range(i + 1)) for i in dofs]
        return replace(small, gradient=tuple(gradient), hessian=tuple(hessian))


class Geodesic(ArmColumns):
    """Adds the second-order correction along the step, cut where it is long (Transtrum and Sethna 2012)."""

    longest: ClassVar[float] = 0.375  # of the step

    def changed(self, program: IslandProgram) -> IslandProgram:
        """Return the program as it is."""
        self._motion = self.axes_and_velocities(program)
        return program

    def _outputs(self) -> dict[str, Expression]:
        program, zero, chord2 = self.program, self.program.graph.constant(0.0), self.program.errors[0].chord2
        assert chord2 is not None
        outputs = super()._outputs() | {"cosine": sqrt(maximum(1.0 - 0.25 * chord2, 0.0)) + zero}
        for k, (row, weight) in enumerate(zip(program.rows, self.weights(program), strict=True)):
            outputs |= {f"row{k}": row, f"weight{k}": weight, f"sine{k}": 0.5 * row / weight}
            outputs |= {f"column{a}_{k}": entry for a, entry in zip(program.dofs, program.jacobian[k], strict=True)}
        for a, (axis, velocity) in zip(program.dofs, self._motion, strict=True):
            outputs |= {f"axis{a}_{k}": axis[k] + zero for k in range(3)}
            outputs |= {f"velocity{a}_{k}": velocity[k] + zero for k in range(3)}
        return outputs

    def _solve(self) -> list[str]:
        lanes, number, dofs, names = self.lanes, self._number, self.program.dofs, dict[Expression, str]()
        bent = self._bent()
        correction = [*statements(lanes, bent, names)]
        correction += [f"const F gradient{a} = {names[node]};" for a, node in zip(dofs, bent, strict=True)]
        correction += [line.replace("step", "bend") for line in super()._solve()]
        step2, bend2 = (" + ".join(f"{name}{a} * {name}{a}" for a in dofs) for name in ("step", "bend"))
        ratio = lanes.sqrt(f"({step2}) / ({bend2} + {number(1e-30)})")
        correction.append(f"const F limit = {number(self.longest)} * {ratio};")
        half = lanes.everywhere(number(0.5))
        correction.append(f"const F share = {lanes.choose(f'limit < {half}', 'limit', half)};")
        correction += [f"whole{a} = step{a} + share * bend{a};" for a in dofs]
        return [*super()._solve(), *(f"F whole{a};" for a in dofs), "{", *correction, "}"]

    def _propose(self) -> list[str]:
        return [line.replace("- step", "- whole") for line in super()._propose()]

    def _bent(self) -> list[Expression]:
        """J'r'' per DOF, r'' the second derivative of the rows along the step."""
        graph, dofs = ExpressionGraph(), self.program.dofs
        zero = graph.constant(0.0)

        def named(name: str, first: int = 0) -> Vector:
            return vector([graph.variable(f"{name}{k}") for k in range(first, first + 3)])

        turn = linear = angular = (zero, zero, zero)
        for a in dofs:
            own = scale(graph.variable(f"step{a}"), named(f"axis{a}_"))
            moved = scale(graph.variable(f"step{a}"), named(f"velocity{a}_"))
            linear = add(linear, cross(add(scale(2.0, turn), own), moved))
            angular = add(angular, cross(turn, own))
            turn = add(turn, own)
        turned = add(scale(graph.variable("cosine"), angular), cross(angular, named("sine", 3)))
        bent = [w * x for w, x in zip(named("weight"), linear, strict=True)]
        less = 0.25 * dot(turn, turn)
        rotation = zip(named("weight", 3), turned, named("row", 3), strict=True)
        bent += [w * x - less * r for w, x, r in rotation]
        return [total(zero, (graph.variable(f"column{a}_{k}") * x for k, x in enumerate(bent))) for a in dofs]
