"""Bulk jobs through Ray: workers on a cluster make the same bytes as this process, and may die."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import ray

from ik_service import load_robot
from ik_service.errors import EngineError
from ik_service.integrations.bulk import FailedPartsError, RayWorkers, run
from ik_service.integrations.bulk.job import BulkPlan
from ik_service.robots.readers.catalog import builtin_urdf
from objectives import InputError
from tests.integrations.bulk.bulk_files import COUNT, PART_ROWS, interrupted, panda_job, part_bytes, refused, solve

COMMAND_S = 300.0
LOST = r"^1 of 6 parts failed.* rows 300 to 399: the worker died each time"


def but_the_lost(whole_bytes):
    return {name: content for name, content in whole_bytes.items() if name != "part-000003.parquet"}


@pytest.fixture
def deadly(tmp_path, monkeypatch):
    """Has workers on a cluster that asks for no token die once at some parts."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    solve_part, marks = run._solve_on_ray, tmp_path / "marks"
    marks.mkdir()

    def kill(numbers):
        def deadly(shared, digest, part):  # travels by value, being local
            mark = marks / str(part.number)
            if part.number in numbers and not mark.exists():
                mark.touch()
                os._exit(7)
            return solve_part(shared, digest, part)

        monkeypatch.setattr(run, "_solve_on_ray", deadly)
        return marks

    return kill


@pytest.mark.evidence
def test_workers_on_a_cluster_make_the_same_bytes_though_some_die(ray_cluster, deadly, targets, whole_bytes, tmp_path):
    marks, urdf, panda = deadly((1, 3)), tmp_path / "arm.urdf", load_robot("panda").collision_model
    urdf.write_bytes(builtin_urdf("panda"))
    robot = load_robot(urdf).with_collision_model(panda)
    urdf.unlink()  # workers get the robot by content
    workers = RayWorkers(ray_cluster.address, count=2)
    report = solve(targets, tmp_path / "results", workers, robot=robot, device="auto")
    assert not ray.is_initialized()
    assert sorted(path.name for path in marks.iterdir()) == ["1", "3"]
    assert (report.done, report.failures) == (COUNT, {})
    assert part_bytes(tmp_path / "results") == whole_bytes


@pytest.mark.evidence
def test_the_command_line_goes_on_with_a_job_on_a_cluster(ray_cluster, targets, whole_bytes, tmp_path):
    folder = tmp_path / "results"
    interrupted(targets, folder, 2 * PART_ROWS)
    command = [sys.executable, "-c", "from ik_service.cli import main; main()", "solve", "panda", str(targets)]
    command += ["-o", str(folder), "--ray", ray_cluster.address, "--workers", "2", "--part-rows", str(PART_ROWS)]
    environment = os.environ | {"RAY_AUTH_MODE": "disabled"}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=COMMAND_S, check=False, text=True)
    assert done.returncode == 0, done.stderr
    for said in (f"{COUNT} of {COUNT} solved for panda_hand", "6 parts", "2 of them from before"):
        assert said in done.stderr
    assert part_bytes(folder) == whole_bytes


@pytest.fixture
def pretended(monkeypatch):
    """Ray in this process: tasks run when they are asked for, and a part of number 3 is lost."""
    sizes = []

    def waited(running):
        sizes.append(len(running))
        return running[-1:], running[:-1]

    def get(task):
        if task[-1].number == 3:
            raise ray.exceptions.WorkerCrashedError
        return run._solve_on_ray(*task)

    resources = {"CPU": 2.0}
    names = {"is_initialized": lambda: True, "put": lambda shared: shared, "wait": waited, "get": get}
    names |= {"cluster_resources": lambda: resources, "available_resources": lambda: resources}
    names["remote"] = lambda **_: lambda function: SimpleNamespace(remote=lambda *task: task)
    for name, function in names.items():
        monkeypatch.setattr(ray, name, function)
    return SimpleNamespace(resources=resources, sizes=sizes)


def test_parts_whose_workers_die_each_time_are_told_as_failed(pretended, targets, whole_bytes, tmp_path):
    refused(LOST, targets, tmp_path / "results", FailedPartsError, workers=RayWorkers())
    assert part_bytes(tmp_path / "results") == but_the_lost(whole_bytes)
    assert pretended.sizes == [2, 2, 2, 2, 2, 1]  # a task for each core


def test_a_worker_without_a_solver_or_with_another_version_says_so_of_every_part(targets, tmp_path):
    plan = BulkPlan.of(panda_job(targets, tmp_path / "results"), "abacus")
    shared = run.pickle.dumps((plan, False))
    for digest, said in ((plan.digest, "abacus"), ("of another", "the job another version")):
        assert said in run._solve_on_ray(shared, digest, plan.parts[3]).failures[3]


def test_wrong_addresses_counts_and_devices_are_refused():
    with pytest.raises(InputError, match="count is 0"):
        RayWorkers(count=0)
    with pytest.raises(EngineError, match=r"No Ray cluster at '127.0.0.1:1'.*'local' starts one"):
        RayWorkers("127.0.0.1:1").connected("cpu").__enter__()
    with pytest.raises(InputError, match="device is 'cuda:1'"):
        RayWorkers().connected("cuda:1").__enter__()


def test_a_worker_has_a_gpu_where_there_are_some(pretended):
    with RayWorkers().connected("auto") as device:
        assert device == "cpu"
    with pytest.raises(EngineError, match="no device cuda"), RayWorkers().connected("cuda"):
        pass
    pretended.resources["GPU"] = 1.0
    with RayWorkers().connected("auto") as device:
        assert device == "cuda"
