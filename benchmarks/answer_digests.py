"""Digests of answers, to show that a change of the code changes no answer, or which ones it changes.

python benchmarks/answer_digests.py --write before.json [--only PREFIX] [--threads 2]      # on the code of before
python benchmarks/answer_digests.py --compare before.json [--only PREFIX] [--threads 2]    # on the code of after

Every set-up (robot, engine, what is asked for) has a digest of each of its parts: columns of the schema of results,
fields of records. Targets depend on a random seed and the robot's kinematics, rounded. README.md says the rest.
"""

import sys
from itertools import chain

from benchmarks.digests.arms import arms
from benchmarks.digests.loops import constraint_kinematics, loops
from benchmarks.digests.program import Budget, SetUps, run
from benchmarks.digests.requests import requests
from benchmarks.digests.surroundings import surroundings
from benchmarks.digests.ticks import ticks


def answers(budget: Budget) -> SetUps:
    """Yield all set-ups, those of the host first."""
    groups = (constraint_kinematics, loops, surroundings, requests, ticks, arms)
    return chain.from_iterable(group(budget) for group in groups)


if __name__ == "__main__":
    sys.exit(run(__doc__, answers))
