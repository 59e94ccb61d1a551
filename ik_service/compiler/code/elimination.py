"""Entries of the Cholesky factor of J'J + damping I that are not zero for all numbers, and their order.

Two DOFs are coupled where some row depends on both, and eliminating one couples all that it is coupled with. DOFs are
eliminated from the tips of a tree to its root: those that a DOF of a limb is coupled with stand above it in a chain and
are coupled already. So limbs that J'J leaves apart stay apart, as in the inertia matrix of a tree (Featherstone 2005,
"Efficient factorization of the joint-space inertia matrix for branched kinematic trees").
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ik_service.compiler.code.lanes import Lanes


@dataclass(frozen=True)
class Elimination:
    """Order and structure of a factorisation."""

    order: tuple[int, ...]  # DOFs as they are eliminated
    # rows of the column of each DOF, below the diagonal: those eliminated after it that it is coupled with
    later: dict[int, tuple[int, ...]]
    # columns of the row of each DOF, left of the diagonal: those eliminated before it that it is coupled with
    earlier: dict[int, tuple[int, ...]]

    @classmethod
    def of(cls, dofs: Sequence[int], coupled: Iterable[tuple[int, int]]) -> "Elimination":
        """Find the structure; DOFs with parents before children, and the pairs of them that J'J couples."""
        order = tuple(reversed(dofs))
        neighbours: dict[int, set[int]] = {a: set() for a in order}
        for a, b in coupled:
            neighbours[a].add(b)
            neighbours[b].add(a)
        later = {}
        for k, a in enumerate(order):
            later[a] = tuple(b for b in order[k + 1 :] if b in neighbours[a])
            for b in later[a]:
                neighbours[b].update(set(later[a]) - {b})
        return cls(order, later, {a: tuple(b for b in order if a in later[b]) for a in order})

    @property
    def size(self) -> int:
        """Entries of the factor, with its diagonal."""
        return len(self.order) + sum(map(len, self.later.values()))

    @property
    def products(self) -> int:
        """Multiplications of a factorisation and of one solution."""
        return sum(n * (n + 1) // 2 + 3 * n + 1 for n in map(len, self.later.values()))

    def factor(
        self,
        lanes: Lanes,  # what a packet is
        # text of an entry of A, (row, column) with row >= column; None for one that is always zero
        entry: Callable[[int, int], str | None],
        floor: Callable[[int], str],  # text of what is added to the diagonal, and the least pivot
        inverse: Callable[[int], str],  # text of 1 / D where `free` and its number hold the inverse of the pivot
        tag: str = "",  # what the names of this system have before their numbers
    ) -> list[str]:
        """Statements that factor A + diag(floor) = L D L', column by column, but for what is always zero.

        Without the roots of a Cholesky factor, on which every following column would wait. A pivot below its floor is
        one that rounding has made too small: what is divided by it would be noise.
        """
        lines, one, zero = list[str](), lanes.number(1.0), lanes.everywhere(lanes.number(0.0))
        for a in self.order:
            products = "".join(f" - factor{tag}{a}_{b} * scaled{tag}{a}_{b}" for b in self.earlier[a])
            pivot, least = f"pivot{tag}{a}", floor(a)
            lines.append(f"const F {pivot} = {entry(a, a)} + {least}{products};")
            lines.append(f"const F free{tag}{a} = {one} / {lanes.choose(f'{pivot} > {least}', pivot, least)};")
            lines.append(f"const F inverse{tag}{a} = {inverse(a)};")
            for c in self.later[a]:
                shared = [b for b in self.earlier[a] if c in self.later[b]]
                products = "".join(f" - factor{tag}{c}_{b} * scaled{tag}{a}_{b}" for b in shared)
                lines.append(f"const F scaled{tag}{c}_{a} = {entry(max(a, c), min(a, c)) or zero}{products};")
                lines.append(f"const F factor{tag}{c}_{a} = scaled{tag}{c}_{a} * inverse{tag}{a};")
        return lines

    def solve(self, right: Callable[[int], str], name: str, tag: str = "") -> list[str]:
        """Statements that solve L D L' x = b after `factor`: text of an entry of b, name of x before its numbers."""
        lines = []
        for a in self.order:
            products = "".join(f" - factor{tag}{a}_{b} * half_{name}{b}" for b in self.earlier[a])
            lines.append(f"const F half_{name}{a} = {right(a)}{products};")
        for a in reversed(self.order):
            products = "".join(f" - factor{tag}{c}_{a} * {name}{c}" for c in self.later[a])
            lines.append(f"const F {name}{a} = half_{name}{a} * inverse{tag}{a}{products};")
        return lines
