"""Random controllers of random robots, judged tick by tick: no limit broken, no false success, a way back from faults.

As evidence it makes FUZZ_TICKS ticks (a million, of all robots together) from FUZZ_SEED (0).
"""

import os

import numpy as np
import pytest

from ik_service.robots import load_urdf
from objectives import IKError
from tests.fuzz.judge import Judge
from tests.fuzz.random_robots import robot_file
from tests.fuzz.random_ticks import Ride
from tests.fuzz.tally import Tally

TICKS = int(float(os.environ.get("FUZZ_TICKS", "1e6")))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
FEW_ROBOTS = (4,)  # of the default run; compiled within seconds
RIDES = 2  # of a robot; each is compiled
STEPS = 300  # of a ride
FAULTS_KEPT = 5  # of a ride; one brings the next
LEAST_CONVERGED = 0.05  # fewer would mean that nearly nothing was reached


def try_robot(number: int, random_seed: int, rides: int, steps: int, tally: Tally) -> None:
    name, urdf = robot_file(number, random_seed)
    judge, robot = Judge.of(urdf), load_urdf(urdf)
    for part in range(rides):
        rng = np.random.default_rng([random_seed, number, part])
        try:
            ride = Ride.draw(rng, judge, robot)
        except IKError as error:
            tally["refused"] += 1
            tally.faults += [] if "leaves nothing" in str(error) else [f"robot {number}, ride {part}: {error}"]
            continue
        found: list[str] = []
        for step in range(steps):
            found += [f"robot {number} ({name}), ride {part}, tick {step}: {fault}" for fault in ride.tick(rng, step)]
        tally.faults += found[:FAULTS_KEPT]
        tally.update(ride.outcomes, rides=1, ticks=steps * ride.controller.robots)


def test_random_ticks_of_some_robots():
    tally = Tally()
    for number in FEW_ROBOTS:
        try_robot(number, 0, 1, 100, tally)
    assert tally.faults == []
    assert min(tally["converged"], tally["invalid"]) > 0


@pytest.mark.evidence
def test_a_million_random_ticks():
    tally, number = Tally(), 0
    while tally["ticks"] < TICKS:
        try_robot(number, SEED, RIDES, STEPS, tally)
        number += 1
    tally.tell()
    assert tally.faults == []
    assert tally["converged"] > LEAST_CONVERGED * tally["ticks"]
    assert tally["invalid"] > 0
