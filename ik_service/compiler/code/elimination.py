"""Sparse Cholesky factorisation of J'J + damping I: order of elimination and nonzero entries.

Two DOFs are coupled if a row depends on both; eliminating a DOF couples all its neighbours. DOFs are eliminated from
the tips of a tree to the root: the neighbours of a DOF are then its ancestors in a chain, which are coupled already, so
separate limbs get no fill-in, as in the inertia matrix of a tree (Featherstone 2005, "Efficient factorization of the
joint-space inertia matrix for branched kinematic trees").
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ik_service.compiler.code.lanes import Lanes


@dataclass(frozen=True)
class Elimination:
    """Order and structure of a factorisation."""

    order: tuple[int, ...]  # DOFs in the order of elimination
    later: dict[int, tuple[int, ...]]  # nonzero rows of a DOF's column: neighbours eliminated later
    earlier: dict[int, tuple[int, ...]]  # nonzero columns of a DOF's row: neighbours eliminated earlier

    @classmethod
    def of(cls, dofs: Sequence[int], coupled: Iterable[tuple[int, int]]) -> "Elimination":
        """Find the structure from DOFs, parents before children, and coupled pairs."""
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
        """Number of entries of the factor, with the diagonal."""
        return len(self.order) + sum(map(len, self.later.values()))

    @property
    def products(self) -> int:
        """Number of multiplications of a factorisation and one solve."""
        return sum(n * (n + 1) // 2 + 3 * n + 1 for n in map(len, self.later.values()))

    def factor(
        self,
        lanes: Lanes,
        entry: Callable[[int, int], str | None],  # text of A[row, column], row >= column; None for a structural zero
        floor: Callable[[int], str],  # text of the term added to the diagonal, also the least pivot
        inverse: Callable[[int], str],  # text of 1 / D; the variable `free` with the DOF's number is 1 / pivot
        tag: str = "",  # tag in the variable names of this system
    ) -> list[str]:
        """Write statements that factor A + diag(floor) = L D L', column by column, without structural zeros.

        No square roots, because every following column would wait for a root. Pivots have a floor, because rounding can
        make a pivot too small.
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
        """Write statements that solve L D L' x = b after `factor`; `right`: text of b's entries, `name`: name of x."""
        lines = []
        for a in self.order:
            products = "".join(f" - factor{tag}{a}_{b} * half_{name}{b}" for b in self.earlier[a])
            lines.append(f"const F half_{name}{a} = {right(a)}{products};")
        for a in reversed(self.order):
            products = "".join(f" - factor{tag}{c}_{a} * {name}{c}" for c in self.later[a])
            lines.append(f"const F {name}{a} = half_{name}{a} * inverse{tag}{a}{products};")
        return lines
