"""Random controllers of random robots, judged tick by tick: no limit broken, no false success, a way back from faults.

As evidence it makes FUZZ_TICKS ticks (a million, of all robots together) from FUZZ_SEED (0).
"""

import dataclasses
import os
import sys
import time

import numpy as np
import pytest

from ik_service.robots import load_urdf
from objectives import IKError
from tests.fuzz.judge import Judge
from tests.fuzz.random_robots import robot_file
from tests.fuzz.random_ticks import Ride

TICKS = int(float(os.environ.get("FUZZ_TICKS", "1e6")))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
FEW_ROBOTS = (4,)  # of the default run; compiled within seconds
RIDES = 2  # of a robot; each is compiled
STEPS = 300  # of a ride
FAULTS_KEPT = 5  # of a ride; one brings the next
LEAST_CONVERGED = 0.05  # fewer would mean that nearly nothing was reached


@dataclasses.dataclass
class Tally:
    """What a run has tried and found.

    Attributes:
        ticks, converged, invalid: Ticks of single robots, and how they ended.
        rides, refused: Controllers, and how many of them were refused.
        faults: What was wrong, with the place to find it again.
    """

    ticks: int = 0
    converged: int = 0
    invalid: int = 0
    rides: int = 0
    refused: int = 0
    faults: list[str] = dataclasses.field(default_factory=list)
    started: float = dataclasses.field(default_factory=time.monotonic)

    def row(self) -> str:
        return (
            f"{self.ticks} ticks of {self.rides} controllers, {self.converged} converged, {self.invalid} invalid, "
            f"{self.refused} refused, {len(self.faults)} faults, {time.monotonic() - self.started:.0f} s"
        )


def try_robot(number: int, random_seed: int, rides: int, steps: int, tally: Tally) -> None:
    """Let a robot go for some rides."""
    name, urdf = robot_file(number, random_seed)
    judge, robot = Judge.of(urdf), load_urdf(urdf)
    for part in range(rides):
        rng = np.random.default_rng([random_seed, number, part])
        try:
            ride = Ride.draw(rng, judge, robot)
        except IKError as error:
            tally.refused += 1
            tally.faults += [] if "leaves nothing" in str(error) else [f"robot {number}, ride {part}: {error}"]
            continue
        found: list[str] = []
        for step in range(steps):
            found += [f"robot {number} ({name}), ride {part}, tick {step}: {fault}" for fault in ride.tick(rng, step)]
        tally.faults += found[:FAULTS_KEPT]
        tally.rides += 1
        tally.ticks += steps * ride.controller.robots
        tally.converged += ride.outcomes["converged"]
        tally.invalid += ride.outcomes["invalid"]


def test_random_ticks_of_some_robots():
    tally = Tally()
    for number in FEW_ROBOTS:
        try_robot(number, 0, 1, 100, tally)
    assert tally.faults == []
    assert tally.converged > 0
    assert tally.invalid > 0


@pytest.mark.evidence
def test_a_million_random_ticks():
    tally, number = Tally(), 0
    while tally.ticks < TICKS:
        try_robot(number, SEED, RIDES, STEPS, tally)
        number += 1
    sys.stdout.write("\n".join(["", *tally.faults[:50], f"{number} robots, {tally.row()}", ""]))
    assert tally.faults == []
    assert tally.converged > LEAST_CONVERGED * tally.ticks
    assert tally.invalid > 0
