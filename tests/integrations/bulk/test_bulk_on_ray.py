"""Bulk jobs through Ray: workers on a cluster make the same bytes as this process, and may die."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import ray

from ik_service import load_robot
from ik_service.errors import EngineError
from ik_service.integrations.bulk import FailedPartsError, RayWorkers, run, solve_job
from ik_service.integrations.bulk.job import BulkPlan
from ik_service.robots.readers.catalog import builtin_urdf
from objectives import InputError
from tests.integrations.bulk.bulk_files import (
    COUNT,
    LINK,
    PART_ROWS,
    panda_job,
    part_bytes,
    random_columns,
    write_targets,
)

COMMAND_S = 300.0


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    columns = random_columns(load_robot("panda"), [LINK], COUNT)
    return write_targets(tmp_path_factory.mktemp("targets") / "targets.parquet", columns)


@pytest.fixture(scope="module")
def whole(targets, tmp_path_factory):
    """Results of one worker in this process that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "results"
    solve_job(panda_job([targets], folder))
    return part_bytes(folder)


@pytest.fixture
def no_token(monkeypatch):
    """The cluster of the tests asks for none."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")


@pytest.mark.evidence
def test_workers_on_a_cluster_make_the_same_bytes_though_some_die(
    ray_cluster, no_token, targets, whole, tmp_path, monkeypatch
):
    solve, marks = run._solve_on_ray, tmp_path / "marks"
    marks.mkdir()

    def deadly(shared, digest, part):  # travels by value, being local
        if part.number in (1, 3) and not (marks / str(part.number)).exists():
            (marks / str(part.number)).touch()
            os._exit(7)
        return solve(shared, digest, part)

    monkeypatch.setattr(run, "_solve_on_ray", deadly)
    panda = load_robot("panda").collision_model
    urdf = tmp_path / "arm.urdf"
    urdf.write_bytes(builtin_urdf("panda"))
    job = panda_job([targets], tmp_path / "results", robot=load_robot(urdf).with_collision_model(panda), device="auto")
    urdf.unlink()  # workers get the robot by content
    report = solve_job(job, RayWorkers(ray_cluster.address, count=2))
    assert not ray.is_initialized()
    assert sorted(path.name for path in marks.iterdir()) == ["1", "3"]
    assert (report.done, report.failures) == (COUNT, {})
    assert part_bytes(tmp_path / "results") == whole


@pytest.mark.evidence
def test_the_command_line_goes_on_with_a_job_on_a_cluster(ray_cluster, targets, whole, tmp_path):
    folder = tmp_path / "results"

    def stop(done, _):
        if done >= 2 * PART_ROWS:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_job(panda_job([targets], folder), progress=stop)
    command = [sys.executable, "-c", "from ik_service.cli import main; main()", "solve", "panda", str(targets)]
    command += ["-o", str(folder), "--ray", ray_cluster.address, "--workers", "2", "--part-rows", str(PART_ROWS)]
    environment = os.environ | {"RAY_AUTH_MODE": "disabled"}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=COMMAND_S, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{COUNT} of {COUNT} solved for panda_hand" in done.stderr
    assert "6 parts" in done.stderr
    assert "2 of them from before" in done.stderr
    assert part_bytes(folder) == whole


@pytest.mark.evidence
def test_a_part_that_kills_its_workers_fails_alone(ray_cluster, no_token, targets, whole, tmp_path, monkeypatch):
    solve = run._solve_on_ray

    def deadly(shared, digest, part):
        if part.number == 3:
            os._exit(7)
        return solve(shared, digest, part)

    monkeypatch.setattr(run, "_solve_on_ray", deadly)
    with pytest.raises(FailedPartsError, match=r"^1 of 6 parts failed.* rows 300 to 399: the worker died each time"):
        solve_job(panda_job([targets], tmp_path / "results"), RayWorkers(ray_cluster.address, count=2))
    made = part_bytes(tmp_path / "results")
    assert made == {name: content for name, content in whole.items() if name != "part-000003.parquet"}


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


def test_parts_whose_workers_die_each_time_are_told_as_failed(pretended, targets, whole, tmp_path):
    with pytest.raises(FailedPartsError, match=r"^1 of 6 parts failed.* rows 300 to 399: the worker died each time"):
        solve_job(panda_job([targets], tmp_path / "results"), RayWorkers())
    made = part_bytes(tmp_path / "results")
    assert made == {name: content for name, content in whole.items() if name != "part-000003.parquet"}
    assert pretended.sizes == [2, 2, 2, 2, 2, 1]  # a task for each core


def test_a_worker_without_a_solver_or_with_another_version_says_so_of_every_part(targets, tmp_path):
    plan = BulkPlan.of(panda_job([targets], tmp_path / "results"), "abacus")
    shared = run.pickle.dumps((plan, False))
    assert "abacus" in run._solve_on_ray(shared, plan.digest, plan.parts[3]).failures[3]
    assert "the job another version" in run._solve_on_ray(shared, "of another", plan.parts[3]).failures[3]


def test_wrong_addresses_counts_and_devices_are_refused(monkeypatch):
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
