"""The iterations that iteration_study.py measures, and what speaks for or against each."""

from dataclasses import dataclass, replace

import iteration_variants as written

from ik_service.compiler import Damping, IterationSource
from ik_service.solver.compiled.iteration import DAMPING
from ik_service.solver.inputs.targets import ROTATION_LENGTH


@dataclass(frozen=True)
class Variant:
    """An iteration.

    Attributes:
        name: Name in the tables.
        why: What speaks for or against it.
        source: How it is written.
        damping: Its numbers.
        rotation_length: Metres that weigh as much as a radian.
    """

    name: str
    why: str = ""
    source: type[IterationSource] = IterationSource
    damping: Damping = DAMPING
    rotation_length: float = ROTATION_LENGTH


def numbers(name: str, why: str = "", **changes: float) -> Variant:
    """Return the solver's iteration with other numbers."""
    return Variant(name, why, damping=replace(DAMPING, **changes))


TO_THE_END = replace(DAMPING, progress=0.0, boost_max=1e6)  # ten trials in a row that raise the cost end an attempt
OURS = Variant("ours")
BEFORE = Variant("monotone", "what is usual: back to the best after a step that fails", written.Monotone, TO_THE_END)

RULES = (
    Variant("monotone, gives up", "the end of ours alone", written.Monotone),
    Variant("ours, never gives up", "the way of ours alone", damping=TO_THE_END),
    Variant("latest kept", "stays where it ends; far from the nearest pose", written.LatestKept),
    Variant("error alone", "no slower, but it oscillates about the nearest pose", written.ErrorAlone),
    Variant("gain ratio", "knows more of a step than whether it failed, to no avail", written.GainRatio),
    Variant("gain ratio, down to a tenth", "steps too long", written.FreeGainRatio),
    Variant("Nielsen", "begins with too much damping or too little", written.Nielsen),
    Variant("Marquardt", "DOFs differ little in scale", written.DiagonalDamping),
)

ARITHMETIC = (
    Variant("square roots", "Cholesky: each column waits for a root", written.SquareRoots),
    Variant("pivots as they come", "noise where DOFs are to spare", written.PivotsAsTheyCome),
    Variant("velocities of the link", "the same J by fewer products: next to nothing", written.OwnOrigin),
    Variant("equal weights", "the same step, if rotation rows weigh the same; weights are data", written.EqualWeights),
    Variant("small angles", "not the true J: engines would disagree", written.SmallAngles),
    Variant("geodesic", "saves fewer steps than it costs", written.Geodesic),
)

NUMBERS = (
    *(Variant(f"rotation length {x:g} m", rotation_length=x) for x in (0.1, 0.2, 0.3, 0.6, 1.0)),
    *(numbers(f"share {x:g}", share=x) for x in (0.01, 0.02, 0.1, 0.2)),
    *(numbers(f"most {x:g}", most=x) for x in (0.1, 5.0)),
    *(numbers(f"least {x:g} roundings", least=x) for x in (0.4, 40.0, 400.0)),
    *(numbers(f"up {x:g}", up=x) for x in (2.0, 8.0)),
    *(numbers(f"down {x:g}", down=x) for x in (0.1, 0.5, 0.7)),
    *(numbers(f"progress {x:g}", progress=x) for x in (0.0, 1e-3, 1e-2)),
    *(numbers(f"boost at most {x:g}", boost_max=x) for x in (50.0, 100.0, 1e4, 1e6)),
)
