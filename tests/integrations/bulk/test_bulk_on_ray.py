"""Bulk jobs through Ray Data: workers on a cluster make the same bytes as this process, and may die."""

import os
import signal
import subprocess
import sys

import pytest
import ray

from ik_service import load_robot
from ik_service.errors import EngineError
from ik_service.integrations.bulk import FailedPartsError, RayWorkers, solve_job
from ik_service.integrations.bulk import ray_workers as ray_workers_module
from ik_service.integrations.bulk.part_files import remove_unfinished_parts
from ik_service.integrations.bulk.plan import BulkPlan
from ik_service.integrations.bulk.ray_workers import RayPartWorker
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

PARTS = -(-COUNT // PART_ROWS)
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
@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning:ray.*")  # Ray Data's own, of its settings
def test_workers_on_a_cluster_make_the_same_bytes_though_one_is_killed(ray_cluster, no_token, targets, whole, tmp_path):
    panda = load_robot("panda").collision_model
    urdf = tmp_path / "arm.urdf"
    urdf.write_bytes(builtin_urdf("panda"))
    robot = load_robot(urdf).with_collision_model(panda)
    job = panda_job([targets], tmp_path / "results", robot=robot, device="auto")
    urdf.unlink()  # workers get the robot by content
    workers = RayWorkers(ray_cluster.address, count=2)
    (tmp_path / "results").mkdir()
    killed, made = [], []
    with workers.connected():
        plan = BulkPlan.of(job, workers.device(job.device))
        for report in workers.run(plan, plan.parts, mark_faulty=False):
            made.append(report)
            if not killed:
                killed.append(int(report.worker.partition(":")[2]))
                os.kill(killed[0], signal.SIGKILL)
    assert not ray.is_initialized()
    assert [report.failure for report in made] == [""] * PARTS
    assert sorted(report.number for report in made) == list(range(PARTS))
    remove_unfinished_parts(tmp_path / "results")  # of the one that was killed
    assert {path.name: path.read_bytes() for path in (tmp_path / "results").iterdir()} == whole


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


@pytest.mark.evidence  # the test below it does the same without a cluster
@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning:ray.*")  # Ray Data's own, of its settings
def test_a_part_that_kills_its_workers_fails_alone(ray_cluster, no_token, targets, whole, tmp_path, monkeypatch):
    class Deadly(RayPartWorker):  # travels by value, being local
        def solve(self, part):
            if part.number == 3:
                os._exit(7)
            return super().solve(part)

    monkeypatch.setattr(ray_workers_module, "RayPartWorker", Deadly)
    with pytest.raises(FailedPartsError, match=r"^1 of 6 parts failed.* rows 300 to 399: the worker died each time"):
        solve_job(panda_job([targets], tmp_path / "results"), RayWorkers(ray_cluster.address, count=2))
    made = part_bytes(tmp_path / "results")
    assert made == {name: content for name, content in whole.items() if name != "part-000003.parquet"}


def test_parts_whose_workers_die_each_time_are_told_as_failed(targets, tmp_path, monkeypatch):
    workers, goes = RayWorkers(), []

    def deadly(plan, parts, in_flight, *, mark_faulty):
        goes.append(([part.number for part in parts], in_flight))
        survivors = [part for part in parts if part.number not in (1, 4 - len(goes))]
        worker = RayPartWorker(plan, mark_faulty)
        return (worker.solve(part) for part in survivors)

    monkeypatch.setattr(workers, "_run_once", deadly)
    plan = BulkPlan.of(panda_job([targets], tmp_path / "results"), "cpu")
    (tmp_path / "results").mkdir()
    reports = list(workers.run(plan, plan.parts, mark_faulty=False))
    assert goes == [([0, 1, 2, 3, 4, 5], 2), ([1, 3], 1)]
    assert sorted(report.number for report in reports) == list(range(PARTS))
    assert {report.number: report.failure for report in reports if report.failure} == {
        1: f"'{targets}' rows 100 to 199: the worker died each time. Ray's log says why."
    }


def test_a_worker_that_cannot_start_says_so_of_every_part(targets, tmp_path):
    plan = BulkPlan.of(panda_job([targets], tmp_path / "results"), "abacus")
    worker = RayPartWorker(plan, mark_faulty=False)
    reports = worker({"number": [3], "file": [0], "first_row": [300], "row_count": [100], "first_problem": [300]})
    assert "abacus" in reports["report"][0]


def test_wrong_addresses_counts_and_devices_are_refused(monkeypatch):
    with pytest.raises(InputError, match="count is 0"):
        RayWorkers(count=0)
    with pytest.raises(EngineError, match=r"No Ray cluster at '127.0.0.1:1'.*'local' starts one"):
        RayWorkers("127.0.0.1:1").connected().__enter__()
    monkeypatch.setattr(ray_workers_module.ray, "cluster_resources", lambda: {"CPU": 2.0})
    assert RayWorkers().device("auto") == "cpu"
    monkeypatch.setattr(ray_workers_module.ray, "cluster_resources", lambda: {"CPU": 2.0, "GPU": 1.0})
    assert RayWorkers().device("auto") == "cuda"
    with pytest.raises(InputError, match="device is 'cuda:1'"):
        RayWorkers().device("cuda:1")
