"""C++ of the proofs of an arm over SIMD packets: one problem in each lane."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ik_service.compiler.closed_form.classes import ArmClass, NominalArm
from ik_service.compiler.closed_form.proofs import ArmProofs, BranchNumbers
from ik_service.compiler.closed_form.turns import (
    LAST,
    LAST_ANGLE,
    ORIENTATION_TOLERANCE,
    POSITION_TOLERANCE,
    TARGET,
    TOOL,
    lower_name,
    upper_name,
)
from ik_service.compiler.code.functions import packet, statements
from ik_service.compiler.code.lanes import Lanes
from objectives.expression import Expression

EXACT_NOISE = 1e-4  # of a rounded file: rotation [rad], and share of the arm's length


@dataclass(frozen=True, eq=False)
class ProofSource:
    """C++ of the proofs of an arm.

    The memory of a packet holds the inputs in the order of `inputs`; input k of lane l is at `k * width + l`.
    """

    arm: NominalArm
    lanes: Lanes

    @property
    def inputs(self) -> tuple[str, ...]:
        """Variables: the target, the tool, tolerances, lower and upper limits, and the last joint where searched."""
        joints = range(len(self.arm.arm.dofs))
        limits = (*map(lower_name, joints), *map(upper_name, joints))
        last = LAST if self.is_searched else ()
        return (*TARGET, *TOOL, POSITION_TOLERANCE, ORIENTATION_TOLERANCE, *limits, *last)

    @property
    def is_searched(self) -> bool:
        """Return whether the proof by intervals needs an interval of the last joint; all have to be tried."""
        return self.arm.kind in (ArmClass.SEARCHED, ArmClass.SEVEN)

    @cached_property
    def _proofs(self) -> ArmProofs:
        return ArmProofs(self.arm)

    @property
    def is_exact(self) -> bool:
        """Return whether the robot is its nominal arm, but for the rounding of its file."""
        arm = self.arm.arm
        return arm.rotation_noise <= EXACT_NOISE and arm.length_noise <= EXACT_NOISE * arm.length

    @property
    def outputs(self) -> int:
        """Numbers of `branches_text` for each branch: refused, radius, margin, and the angles."""
        return 3 + len(self._proofs.branches[0].angles)

    @cached_property
    def branches(self) -> list[BranchNumbers]:
        """Branches of `branches_text`: all, or the one refused least for an interval of a searched last joint."""
        return [self._proofs.nearest] if self.is_searched else self._proofs.branches

    @property
    def branches_at_last_joint(self) -> int:
        """Number of branches for a given last joint."""
        return len(self._proofs.branches)

    @property
    def outputs_at_last_joint(self) -> int:
        """Numbers of `solutions_text` for each branch."""
        return 3 + len(self._proofs.branches[0].angles)

    def shell_text(self) -> str:
        """Write the body of `int shell(Inputs& inputs)`: lanes with a proof by the shell, as bits."""
        return self._text(self._proofs.shell)

    def branches_text(self) -> str:
        """Write the body of `int branches(Inputs& inputs, Found& found, int tolerates)`: lanes with a proof, as bits.

        The proof is by intervals, for targets within the tolerances, or exact ones where `tolerates` is 0. Output k of
        branch b of lane l is at `(b * outputs + k) * width + l`.
        """
        numbers = [value for branch in self.branches for value in self._proofs.numbers(branch)]
        return self._text(self._proofs.intervals, numbers, flag="tolerates")

    def every_branch_text(self) -> str:
        """Write the body of `int every_branch(Inputs& inputs, Found& found, Bits& bits)`, of a searched last joint.

        The numbers are those of `branches_text`, of all branches; bits `b` are the lanes with a proof for branch b.
        """
        proofs = self._proofs
        numbers = [value for branch in proofs.branches for value in proofs.numbers(branch)]
        return self._text(
            proofs.intervals, numbers, proofs.expressions(*(branch.refused for branch in proofs.branches))
        )

    def mismatches_text(self, near: float) -> str:
        """Write the body of `int mismatches(Inputs& inputs, Values& found, Bits& bits)` for angles of the last joint.

        The mismatch of branch b of lane l is at `b * width + l`; bits `b` are its lanes with a mismatch above 0, and
        bits `branches + b` the lanes with an absolute mismatch below `near` [rad].
        """
        exact = self._exact
        mismatches = exact.expressions(*(branch.mismatch for branch in exact.branches))
        return self._text(None, mismatches, [*mismatches, *(near - abs(one) for one in mismatches)])

    def solutions_text(self, *, with_volumes: bool = False) -> str:
        """Write the body of `int solutions(Inputs& inputs, Found& found, Bits& bits)` for angles of the last joint.

        Output k of branch b of lane l is at `(b * outputs + k) * width + l`: `BEYOND`, mismatch, margin and the angles;
        bits `b` are the lanes that are beyond the limits or without a solution. `with_volumes` puts the manipulability
        of an arm with seven joints in the place of the mismatch.
        """
        exact, numbers = self._exact, list[Expression]()
        for branch in exact.branches:
            second = exact.volume(branch) if with_volumes else branch.mismatch
            numbers += exact.expressions(branch.beyond, second, branch.margin, *branch.angles)
        return self._text(None, numbers, exact.expressions(*(branch.beyond for branch in exact.branches)))

    @cached_property
    def _exact(self) -> ArmProofs:
        return ArmProofs(self.arm, is_exact=True)

    def _text(
        self,
        proof: Expression | None,
        outputs: Sequence[Expression] = (),
        marks: Sequence[Expression] = (),
        flag: str = "",
    ) -> str:
        """Write a body that computes outputs, keeps the lanes with marks above 0, and returns the lanes with a proof.

        A body without a proof is for exact targets; a flag is an argument, 0 for exact targets.
        """
        lanes, names = self.lanes, dict[Expression, str]()
        inputs = self.inputs if proof is not None else (*self.inputs[: -len(LAST)], LAST_ANGLE)
        factors = dict.fromkeys((POSITION_TOLERANCE, ORIENTATION_TOLERANCE), f" * (float){flag}" if flag else "")
        lines = [f"const F {name} = s[{k}]{factors.get(name, '')};" for k, name in enumerate(inputs)]
        lines += statements(lanes, [*([] if proof is None else [proof]), *outputs, *marks], names)
        lines += [f"((U*)&found)[{k}] = {packet(lanes, value, names)};" for k, value in enumerate(outputs)]
        above, *of_marks = ("0" if value is None else self._above(value, names) for value in (proof, *marks))
        lines += [f"bits.c[{k}] = {text};" for k, text in enumerate(of_marks)]
        lines = [*lanes.prologue(), "U* const s = (U*)&inputs;", *lines, f"return {above};"]
        if lanes.width == 1:
            return "\n".join(["{", *lines, "}"])
        # a function of its own, that is called: inlined into a kernel, it takes the compiler twice as long
        given = {"inputs": True, "found": bool(outputs), "bits": bool(marks), flag: bool(flag)}
        names_of = ", ".join(name for name, is_given in given.items() if is_given)
        head = f"const auto proof = [](auto& {names_of.replace(', ', ', auto& ')}) __attribute__((noinline)) -> int {{"
        return "\n".join([head, *lines, "};", f"return proof({names_of});"])

    def _above(self, value: Expression, names: Mapping[Expression, str]) -> str:
        lanes = self.lanes
        return lanes.bits(f"{packet(lanes, value, names)} > {lanes.everywhere(lanes.number(0.0))}")
