"""Space of the linear system of a step: DOFs or rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ik_service.compiler.code.elimination import Elimination
from ik_service.compiler.island_program import IslandProgram

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
        shape, has_levels = (len(program.rows), len(program.dofs)), len(program.levels) > 0
        return cls.of(program.dofs, depends.reshape(shape), in_dofs=in_dofs, has_levels=has_levels, most=most)
