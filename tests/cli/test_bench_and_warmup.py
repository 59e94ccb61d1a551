"""`ik-service bench` and `ik-service warmup`: output, and compiled code for a service."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
import warp as wp

from ik_service import builtin_robot_names, load_robot
from ik_service.cli import robot_bench, warmup_command
from ik_service.cli.bench_command import BAR_WIDTH
from ik_service.cli.warmup_command import OBJECT_SUFFIXES
from ik_service.kernels.kernel_cache import MARKS
from ik_service.service.schema.examples import SOLVE_REQUESTS
from ik_service.solver.compiled.island_launches import ThreadLaunches

BENCH = ("bench", "panda", "--count", "50", "--repeats", "2", "--threads", "2", "--device", "cpu")


@pytest.fixture(autouse=True)
def _few_calls(monkeypatch):
    monkeypatch.setitem(robot_bench.LATENCY_CALLS, "compiled", 10)


def warmed(run, *arguments):
    return json.loads(run("warmup", *arguments, "--json").stdout)


def test_the_bench_as_json_and_for_people(run):
    report = json.loads(run(*BENCH, "--json").stdout)
    assert (report["robot"], report["links"], len(report["batches"])) == ("panda", ["panda_hand"], 3)
    assert all(batches["solved_share"] > 0.9 for batches in report["batches"])
    assert all(batches["us_per_target"]["median"] > 0 for batches in report["batches"])
    assert report["threads"]["threads"] == 2
    assert report["latency"]["p50_us"] > 0
    assert report["machine"]["warp"]
    assert report["by_batch"] == []
    text = run(*BENCH).stdout
    assert [word for word in ("1 mm, 0.01 rad", "One target: median", "2 threads:") if word not in text] == []


def test_the_bench_plots_batches_of_more_and_more_targets(run):
    report = json.loads(run(*BENCH, "--plot", "--json").stdout)
    assert [size for size, _ in report["by_batch"]] == [1, 10]
    assert min(speed for _, speed in report["by_batch"]) > 0.0
    lines = run(*BENCH, "--plot").stdout.splitlines()
    bars = [line.count("█") for line in lines if "█" in line]
    assert len(bars) == 2
    assert 0 < min(bars) <= max(bars) == BAR_WIDTH


def test_warmup_names_what_was_there_already(run):
    first, again = (warmed(run, "panda", "--device", "cpu") for _ in range(2))
    assert (again["robots"][0]["compiled"], again["cache"]) == (0, first["cache"])
    text = run("warmup", "panda", "--device", "cpu").stdout
    assert text.startswith("panda panda_hand: nothing to compile, ")
    assert text.endswith("s (compiled engine, cpu)\n")


def test_warmup_leaves_out_what_other_processes_compile_meanwhile(run, monkeypatch):
    others = Path(str(wp.config.kernel_cache_dir), "wp_of_another_process_0123456", "wp_of_another_process.o")

    def compile_elsewhere(*_):
        others.parent.mkdir()
        others.touch()

    run("warmup", "panda", "--device", "cpu")
    monkeypatch.setattr(warmup_command, "mark_compiled", compile_elsewhere)
    try:
        report = warmed(run, "panda", "--device", "cpu")
        assert others in warmup_command.compiled_objects()
    finally:
        shutil.rmtree(others.parent)
    assert report["robots"][0]["compiled"] == 0


@pytest.fixture
def noted(monkeypatch):
    """Robots and links of warmup, in place of its work."""
    found = []

    def note(robot, links, job):
        found.append((robot.name, links))
        return "compiled", job.device, 0

    monkeypatch.setattr(warmup_command, "_solve_once", note)
    monkeypatch.setattr(warmup_command, "_compile_for_gpus", note)
    return found


def test_without_names_warmup_takes_every_robot_and_leaf(noted):
    for one in warmup_command.warm_up(warmup_command.WarmUpJob(device="cpu")):
        assert one.compiled == 0
    assert {name for name, _ in noted} == set(builtin_robot_names())
    assert ("panda", ("panda_hand",)) in noted
    hands = ("left_panda_hand", "right_panda_hand")
    assert [links for name, links in noted if name == "dual_panda"] == [hands[:1], hands[1:], hands]
    assert warmup_command.link_sets(load_robot("dual_panda"), ["a", "b"]) == [("a", "b")]  # that are named


def test_warmup_for_gpus_takes_architectures_and_leaves_what_is_too_large(run, monkeypatch):
    asked = []

    def note(modules, architectures):
        asked.append((len(modules), architectures))
        return [object()] * 5

    monkeypatch.setattr(warmup_command, "compile_for_gpus", note)
    monkeypatch.setattr(ThreadLaunches, "step_entries_max", 240)  # all five limbs together have 307
    report = warmed(run, "humanoid", "--device", "cuda", "--arch", "80,90")
    # Waves, what follows them, deadlines, clearances, and islands with and without a check.
    assert asked == [(7, (80, 90))] * 5
    assert [one["engine"] for one in report["robots"]] == ["compiled"] * 5 + ["staged"]
    assert [one["compiled"] for one in report["robots"]] == [5] * 5 + [0]
    assert {one["device"] for one in report["robots"]} == {"sm_80, sm_90"}


def test_warmup_for_gpus_takes_robots_with_loops_where_they_are_named(noted):
    job = warmup_command.WarmUpJob(device="cuda", architectures=(90,))
    assert len(list(warmup_command.warm_up(job))) == len(noted)
    assert ("panda", ("panda_hand",)) in noted
    assert not {"delta", "stewart", "four_bar", "five_bar"} & {name for name, _ in noted}
    hands = ("left_panda_hand", "right_panda_hand")
    assert [links for name, links in noted if name == "dual_panda"] == [hands[1:], hands]
    noted.clear()
    list(warmup_command.warm_up(replace(job, names=("delta",), links=("platform",))))
    assert noted == [("delta", ("platform",))]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bench", "dual_panda", "--count", "5"), "Give --link"),
        (("warmup", "panda", "--link", "tool"), "panda_hand"),
        (("warmup", "pandas"), "'pandas'"),
        (("warmup", "panda", "--device", "cuda", "--arch", "33"), "Architecture 33 is not known. Allowed: 75,"),
        (("warmup", "panda", "--arch", "90"), "--arch goes with --device cuda"),
        (("warmup", "panda", "--device", "cuda", "--arch", "x"), "--arch goes with --device cuda"),
    ],
)
def test_what_is_wrong_is_named(run, arguments, message):
    assert message in run(*arguments, code=2).output.replace("\n", " ")


# ---------------------------------------------------------------------- compiled code for a service
def objects(folder):
    return [path for path in folder.rglob("*") if path.suffix in OBJECT_SUFFIXES]


@pytest.mark.evidence
def test_a_service_finds_what_was_shipped_and_compiles_nothing(serve, tmp_path):
    shipped, cache = tmp_path / "shipped" / str(wp.config.version), tmp_path / "cache"
    command = [sys.executable, "-c", "from ik_service.cli import main; main()", "warmup", "panda", "--device", "cpu"]
    subprocess.run(command, env=os.environ | {"WARP_CACHE_PATH": str(shipped.parent)}, check=True, stdout=sys.stderr)
    server = serve(WARP_CACHE_PATH=str(cache), IK_SERVICE_SHIPPED_KERNELS=str(shipped.parent))
    body = json.dumps(SOLVE_REQUESTS["one_pose"]).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.url}/v1/robots/panda/solve", body, headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        assert json.load(reply)["success"] == [True]
    assert len(objects(cache)) == len(objects(shipped)) > 1
    assert [path for path in objects(cache) if not path.is_symlink()] == []
    assert any((cache / shipped.name / MARKS).iterdir())
    assert "no setting" not in "\n".join(server.log)


def test_warmup_marks_what_a_service_need_not_compile_apart(run):
    from ik_service import load_robot
    from ik_service.cli.warmup_command import WarmUpJob, request_of
    from ik_service.service.pool.kernel_marks import mark_of

    wp.init()  # says where the cache is
    robot, jobs = load_robot("ur5e"), (WarmUpJob(), WarmUpJob(float64=True))
    requests = [request_of(robot, ["tool0"], job) for job in jobs]
    marks = [mark_of(robot, request, device) for request in requests for device in ("cpu", "auto")]
    for mark in marks:
        mark.unlink(missing_ok=True)
    run("warmup", "ur5e", "--device", "cpu", "--float64")
    assert len(set(marks)) == 4
    assert all(mark.exists() for mark in marks)
