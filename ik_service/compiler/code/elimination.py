"""Sparse Cholesky factorisation of J'J + damping I: order of elimination and nonzero entries.

Two DOFs are coupled if a row depends on both; eliminating a DOF couples all its neighbours. DOFs are eliminated from
the tips of a tree to the root: the neighbours of a DOF are then its ancestors in a chain, which are coupled already, so
separate limbs get no fill-in, as in the inertia matrix of a tree (Featherstone 2005, "Efficient factorization of the
joint-space inertia matrix for branched kinematic trees"). The linear system of a step is over DOFs or over rows.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ik_service.compiler.code.lanes import Lanes
from ik_service.compiler.island_program import IslandProgram


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


CHAIN_ROWS = 6  # rows of one target: the space of rows costs no more than the space of as many DOFs


@dataclass(frozen=True)
class StepSpace:
    """Space of the linear system of an island's step."""

    in_rows: bool  # space of the rows, or of the DOFs
    elimination: Elimination  # factorisation of J'J, or of J D^-1 J' over the rows that depend on several DOFs
    entries: int  # entries of factor and Jacobian: a measure of the code's size

    @classmethod
    def of(
        cls,
        dofs: Sequence[int],  # DOFs of the island, parents before children
        depends: NDArray[np.bool_],  # sparsity of the Jacobian, [rows, dofs]
        *,
        in_dofs: bool = False,  # requires the space of the DOFs, because J'J is needed anyway
        has_levels: bool = False,  # several priorities: prefers the space of rows; J'J loses light rows in float32
        most: float = math.inf,  # room for entries
    ) -> "StepSpace":
        """Choose the space with fewer operations, unless only the other space has few enough entries."""
        products = depends.T.astype(int) @ depends
        pairs = np.argwhere(np.tril(products, -1))
        by_dofs = Elimination.of(dofs, [(dofs[a], dofs[b]) for a, b in pairs])
        lengths = depends.sum(axis=1)
        coupling = np.flatnonzero(lengths > 1)
        shared = depends[coupling].astype(int) @ depends[coupling].T
        is_chain = 0 < len(coupling) <= min(len(dofs), CHAIN_ROWS) and (lengths != 1).all()
        dof_cost = int(np.tril(products).sum()) + by_dofs.products
        row_cost = int(np.tril(shared).sum() + np.trace(products)) + 2 * int(lengths[coupling].sum())
        of_dofs = cls(False, by_dofs, by_dofs.size)
        dearer = row_cost >= dof_cost and not is_chain and not has_levels  # even without the factorisation
        if in_dofs or not len(coupling) or (dearer and of_dofs.entries <= most):
            return of_dofs
        pairs = np.argwhere(np.tril(shared, -1))
        by_rows = Elimination.of(coupling.tolist(), [(int(coupling[r]), int(coupling[s])) for r, s in pairs])
        row_cost += by_rows.products
        of_rows = cls(True, by_rows, by_rows.size + int(lengths[coupling].sum()))
        better, other = of_dofs, of_rows
        if is_chain or has_levels or row_cost < dof_cost:
            better, other = of_rows, of_dofs
        return other if other.entries <= most < better.entries else better

    @classmethod
    def of_program(cls, program: IslandProgram, *, in_dofs: bool, most: float = math.inf) -> "StepSpace":
        """Choose the space for a program; see `of`. Loops need J'J, the space of the DOFs."""
        if program.loops:
            elimination = Elimination.of(program.dofs, program.coupled)
            return cls(False, elimination, elimination.size)
        depends = np.array([[not entry.is_zero for entry in row] for row in program.jacobian], dtype=bool)
        shape, has_levels = (len(program.rows), len(program.dofs)), len(program.level_norms2) > 0
        return cls.of(program.dofs, depends.reshape(shape), in_dofs=in_dofs, has_levels=has_levels, most=most)
