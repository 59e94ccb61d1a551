"""Which entries of the Cholesky factor of J'J + damping I are not zero for all numbers, and in which order they come.

Two DOFs are coupled where some row depends on both, and eliminating one couples all that it is coupled with. DOFs are
eliminated from the tips of a tree to its root: those that a DOF of a limb is coupled with stand above it in a chain and
are coupled already. So limbs that J'J leaves apart stay apart, as in the inertia matrix of a tree (Featherstone 2005,
"Efficient factorization of the joint-space inertia matrix for branched kinematic trees").
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Elimination:
    """Order and structure of a factorisation.

    Attributes:
        order: DOFs as they are eliminated.
        later: Rows of the column of each DOF, below the diagonal: those eliminated after it that it is coupled with.
        earlier: Columns of the row of each DOF, left of the diagonal: those eliminated before it, alike.
    """

    order: tuple[int, ...]
    later: dict[int, tuple[int, ...]]
    earlier: dict[int, tuple[int, ...]]

    @classmethod
    def of(cls, dofs: Sequence[int], coupled: Iterable[tuple[int, int]]) -> "Elimination":
        """Find the structure.

        Args:
            dofs: DOFs, parents before children.
            coupled: Pairs of them that J'J couples.
        """
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
