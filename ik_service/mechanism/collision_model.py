"""Collision model of a robot: spheres that cover links, and pairs of links checked for self-collision."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from ik_service.mechanism.transforms import MAX_POSITION, Float64Array
from objectives.errors import InputError

LinkPair = tuple[str, str]
MAX_SPHERES = 4096  # largest number of spheres of a robot


@dataclass(frozen=True, eq=False)
class CollisionModel:
    """Spheres that cover the links of a robot, and pairs of links for self-collision; read-only.

    Attributes:
        spheres: By link: centres in the link's frame [m] and radii [m], shape [spheres of the link, 4].
        pairs: Pairs of links that are checked.
        left_out: Pairs of links that are not checked, by reason.
    """

    spheres: Mapping[str, Float64Array]
    pairs: tuple[LinkPair, ...]
    left_out: Mapping[str, tuple[LinkPair, ...]]

    def __init__(
        self,
        spheres: Mapping[str, ArrayLike],
        pairs: Iterable[LinkPair],
        left_out: Mapping[str, Iterable[LinkPair]] | None = None,
    ) -> None:
        """Copy and check the arguments; every pair gets its links in alphabetical order.

        Raises:
            InputError: An argument has the wrong type, spheres are not finite numbers of shape [k, 4], a radius is not
                positive, there is no sphere or too many, or a pair is not two links with spheres.
        """
        for what, given in (("spheres", spheres), ("left_out", {} if left_out is None else left_out)):
            if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
                raise InputError(f"The {what} of a collision model must be a mapping of names, got {given!r:.80}.")
        found = {link: checked_spheres(f"Spheres of link '{link}'", values) for link, values in spheres.items()}
        object.__setattr__(self, "spheres", MappingProxyType({link: own for link, own in found.items() if len(own)}))
        count = sum(map(len, found.values()))
        if not 0 < count <= MAX_SPHERES:
            raise InputError(f"A collision model has 1 to {MAX_SPHERES} spheres, got {count}.")
        object.__setattr__(self, "pairs", checked_pairs(pairs, self.spheres))
        reasons = {reason: checked_pairs(own, self.spheres) for reason, own in (left_out or {}).items()}
        object.__setattr__(self, "left_out", MappingProxyType(reasons))

    def __reduce__(self) -> tuple[type["CollisionModel"], tuple[object, ...]]:
        return type(self), (dict(self.spheres), self.pairs, dict(self.left_out))

    def __repr__(self) -> str:
        return f"<CollisionModel: {self.sphere_count} spheres on {len(self.spheres)} links, {len(self.pairs)} pairs>"

    @property
    def sphere_count(self) -> int:
        """Number of spheres of all links."""
        return sum(map(len, self.spheres.values()))

    @property
    def distance_count(self) -> int:
        """Number of distances between spheres to check one configuration."""
        return sum(len(self.spheres[a]) * len(self.spheres[b]) for a, b in self.pairs)

    @cached_property
    def content_hash(self) -> str:
        """Hex digest of spheres and pairs; equal digests mean interchangeable models."""
        digest = sha256(repr(self.pairs).encode())
        for link, own in self.spheres.items():
            digest.update(f"\n{link} {own.shape}\n".encode() + own.tobytes())
        return digest.hexdigest()

    def of_links(self, links: Collection[str]) -> "CollisionModel | None":
        """Give the model of some links; None if no such link has spheres."""
        kept = {link: own for link, own in self.spheres.items() if link in links}
        if not kept:
            return None
        return CollisionModel(
            kept,
            (pair for pair in self.pairs if kept.keys() >= {*pair}),
            {reason: [pair for pair in own if kept.keys() >= {*pair}] for reason, own in self.left_out.items()},
        )

    def without_pairs(self, pairs: Iterable[LinkPair], reason: str) -> "CollisionModel":
        """Give a model without checks of some pairs, for a reason; InputError if a pair is not two links with spheres.

        Pairs that are not checked already keep their reason.
        """
        left_out = set(checked_pairs(pairs, self.spheres)) & set(self.pairs)
        kept = [pair for pair in self.pairs if pair not in left_out]
        others = {name: own for name, own in self.left_out.items() if name != reason}
        return CollisionModel(self.spheres, kept, {**others, reason: [*self.left_out.get(reason, ()), *left_out]})


def checked_pairs(pairs: Iterable[LinkPair], links: Collection[str]) -> tuple[LinkPair, ...]:
    """Sort pairs, each once, links in alphabetical order; InputError for anything but pairs of `links`."""
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InputError(f"Pairs must be a list, each the names of two links, got {pairs!r:.80}.")
    found = set()
    for pair in pairs:
        names = [] if isinstance(pair, str) or not isinstance(pair, Iterable) else [*pair]
        if len(names) != 2 or not all(isinstance(name, str) for name in names):
            raise InputError(f"A pair must be the names of two links, got {pair!r:.80}.")
        first, second = names
        for link in names:
            if link not in links:
                raise InputError(f"The pair of '{first}' and '{second}' needs spheres of link '{link}'; it has none.")
        if first == second:
            raise InputError(f"A pair needs two links, got '{first}' twice.")
        found.add((min(first, second), max(first, second)))
    return tuple(sorted(found))


def checked_spheres(what: str, values: ArrayLike) -> Float64Array:
    """Copy spheres, centres and radii [m], read-only, shape [k, 4]; InputError about `what` for other numbers."""
    try:
        spheres = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} must have the shape [k, 4], got {values!r:.80}.") from None
    if not spheres.size:
        spheres = spheres.reshape(0, 4)
    if spheres.ndim != 2 or spheres.shape[1] != 4:
        raise InputError(f"{what} must have the shape [k, 4], got {list(spheres.shape)}.")
    if not (np.abs(spheres) <= MAX_POSITION).all() or not (spheres[:, 3] > 0.0).all():
        raise InputError(f"{what} must have finite centres and radii above 0.")
    spheres.setflags(write=False)
    return spheres
