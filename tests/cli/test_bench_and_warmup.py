"""`ik-service bench` and `ik-service warmup`: what they print. What warmup leaves behind: tests/solver."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import warp as wp

from ik_service import builtin_robot_names, load_robot
from ik_service.cli import robot_bench, warmup_command
from ik_service.cli.bench_command import BAR_WIDTH
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


def test_without_names_warmup_takes_every_robot_and_leaf(monkeypatch):
    solved = []

    def note(robot, links, job):
        solved.append((robot.name, links))
        return "compiled", job.device, 0

    monkeypatch.setattr(warmup_command, "_solve_once", note)
    for one in warmup_command.warm_up(warmup_command.WarmUpJob(device="cpu")):
        assert one.compiled == 0
    assert {name for name, _ in solved} == set(builtin_robot_names())
    assert ("panda", ("panda_hand",)) in solved
    hands = ("left_panda_hand", "right_panda_hand")
    assert [links for name, links in solved if name == "dual_panda"] == [hands[:1], hands[1:], hands]
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


def test_warmup_for_gpus_takes_robots_with_loops_where_they_are_named(monkeypatch):
    compiled = []

    def note(robot, links, job):
        compiled.append((robot.name, links))
        return "compiled", "sm_90", 0

    monkeypatch.setattr(warmup_command, "_compile_for_gpus", note)
    job = warmup_command.WarmUpJob(device="cuda", architectures=(90,))
    assert len(list(warmup_command.warm_up(job))) == len(compiled)
    assert ("panda", ("panda_hand",)) in compiled
    assert not {"delta", "stewart", "four_bar", "five_bar"} & {name for name, _ in compiled}
    hands = ("left_panda_hand", "right_panda_hand")
    assert [links for name, links in compiled if name == "dual_panda"] == [hands[1:], hands]
    compiled.clear()
    list(warmup_command.warm_up(replace(job, names=("delta",), links=("platform",))))
    assert compiled == [("delta", ("platform",))]


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


@pytest.mark.evidence
def test_warmup_for_positions_and_float64_leaves_nothing_to_compile(run):
    for options in (["--position-only"], ["--float64"]):
        run("warmup", "ur5e", "--device", "cpu", *options)
        assert [one["compiled"] for one in warmed(run, "ur5e", "--device", "cpu", *options)["robots"]] == [0]
