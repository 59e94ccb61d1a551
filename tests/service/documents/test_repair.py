"""The option `repair` over HTTP."""

import numpy as np

from ik_service import IKSolver
from ik_service.robots.readers.world_file import read_world
from tests.service.documents.test_worlds import OBJECTS, solve
from tests.solver.test_collision import HAND, free_targets

COUNT = 200
ONE_START = {"seeds": 1, "sampler": "none"}


def test_answers_in_contact_are_moved_out_of_it(served_cell, cell):
    world, poses = read_world({"objects": OBJECTS}), free_targets(cell, COUNT, read_world({"objects": OBJECTS}))
    target = {"link": HAND, "positions": poses[0].tolist(), "orientations_xyzw": poses[1].tolist()}
    solver, counts = IKSolver(cell, [HAND], device="cpu"), []
    for repair in (False, True):
        expected = solver.solve(*poses, world=world, options={**ONE_START, "repair": repair})
        answer = solve(served_cell, target, {"objects": OBJECTS}, options={**ONE_START, "repair": repair}).json()
        np.testing.assert_array_equal(np.array(answer["joint_q"], np.float32), expected.joint_q)
        assert answer["success"] == expected.success.tolist()
        counts.append(sum(answer["success"]))
    assert counts[1] > counts[0]
