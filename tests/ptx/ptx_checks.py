import numpy as np, time
import pytest
import ik_service
from tests.solver.conftest import Reachable
GPU="cuda:0"
def test_x(device):
    robot = ik_service.load_robot("panda", collision="ignore")
    problems = Reachable.draw(robot, ["panda_hand"], 200, random_seed=5)
    res = []
    for where in ("cpu", GPU):
        opt = ik_service.SolverOptions(seeds=16)
        solver = ik_service.IKSolver(robot, ["panda_hand"], device=where, engine="compiled", options=opt)
        t=time.time()
        solver.solve(problems.positions, problems.orientations_xyzw)
        print("first", time.time()-t)
        t=time.time()
        device.set(order=0)
        n=device["instructions"]
        res.append(solver.solve(problems.positions, problems.orientations_xyzw))
        print("second", time.time()-t, device["instructions"]-n)
        device.set(order=2)
        t=time.time()
        res.append(solver.solve(problems.positions, problems.orientations_xyzw))
        print("random", time.time()-t, device["instructions"]-n)
    a,_,b,c=res
    print(a.success.sum(), b.success.sum(), (a.seed_index==b.seed_index).mean(), (a.islands.iterations==b.islands.iterations).mean())
    print(b.joint_q.tobytes()==c.joint_q.tobytes())
    print(np.abs(a.joint_q-b.joint_q).max(axis=1))
