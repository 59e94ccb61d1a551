"""Damping and acceptance of steps: one rule of damping, and two policies of acceptance.

The damping of a step is `factor * (min(DAMPING_SHARE * |r|^2, DAMPING_MAX * h) + floor)`, h the largest diagonal entry
of J'J: proportional to the squared error (Sugihara 2011) up to a share of h. The damping factor is 1 for the first
step of an attempt; a rejected step raises the factor, an accepted one lowers it. The floor is a share of h, or in the
compiled engine a share of each entry, so that light rows beside heavy ones are not lost; see `Damping`.

The two engines accept steps differently:

- staged (`GAIN_MIN`): a trial is accepted if the gain ratio (decrease of the cost / predicted decrease) exceeds
  GAIN_MIN. Every accepted configuration is the best so far, so several candidates of one step can be compared.
- compiled (`DAMPING` and its kin): the next step starts from the trial even if the trial is worse, and the best
  configuration is stored separately. Then each iteration evaluates one trial per lane without branches; measured
  faster.
"""

from dataclasses import replace

import warp as wp

from ik_service.compiler import Damping

DAMPING_SHARE = wp.constant(0.05)
DAMPING_MAX = wp.constant(0.5)  # of the largest diagonal entry of J'J: far targets are approached in long steps
DAMPING_MIN = wp.constant(5.0e-8)  # of the same
FACTOR_UP = wp.constant(4.0)
FACTOR_DOWN = wp.constant(0.25)

# Staged engine
FACTOR_MAX_STAGED = wp.constant(1.0e6)  # so short a step that fails will not succeed
GAIN_MIN = wp.constant(1.0e-3)  # share of the predicted decrease that an accepted step must realise

# Compiled engine. Chosen among many: benchmarks/engines/iteration_study.md
DAMPING = Damping(
    share=float(DAMPING_SHARE),
    most=float(DAMPING_MAX),
    least=4.0,  # roundings of the entry
    progress=1.0e-4,  # of |r|^2
    up=float(FACTOR_UP),
    down=float(FACTOR_DOWN),
    factor_max=1.0e3,  # exceeded by five trials in a row without progress: 4^5
    smallest=1.0e-4,  # with less, rounding moves a DOF of little effect
)
# Without targets an attempt ends at a minimum with a cost: steps converge slowly, with little to gain.
OBJECTIVE_DAMPING = replace(DAMPING, progress=1.0e-6, up=3.0, down=0.5)
# Lower-priority rows are lowered along the curved null space of targets: shorter steps are tried more patiently.
LEVEL_DAMPING = replace(DAMPING, up=2.0, factor_max=300.0)
# Ticks of a controller
TICK_DAMPING = replace(
    DAMPING,
    progress=1e-10,  # with more, joints in the null space still move slowly, which looks like motion
    smallest=1.0,  # the floor of the largest entry holds joints in the null space
    bend=0.5,  # about the second derivatives of an arm's rows [units of length]; with less, arms swing at full reach
    settles=True,
)
