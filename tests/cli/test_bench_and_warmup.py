"""`ik-service bench` and `ik-service warmup`: what they print. What warmup leaves behind: tests/solver."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import warp as wp

from ik_service import builtin_robot_names, load_robot
from ik_service.cli import robot_bench, warmup_command
from ik_service.solver.compiled.island_launches import ThreadLaunches

BENCH = ("bench", "panda", "--count", "50", "--repeats", "2", "--threads", "2", "--device", "cpu")


@pytest.fixture(autouse=True)
def _few_calls(monkeypatch):
    monkeypatch.setitem(robot_bench.LATENCY_CALLS, "compiled", 10)


def test_the_bench_as_json(run):
    report = json.loads(run(*BENCH, "--json").stdout)
    assert report["robot"] == "panda"
    assert report["links"] == ["panda_hand"]
    assert len(report["batches"]) == 3
    assert all(batches["solved_share"] > 0.9 for batches in report["batches"])
    assert all(batches["us_per_target"]["median"] > 0 for batches in report["batches"])
    assert report["threads"]["threads"] == 2
    assert report["latency"]["p50_us"] > 0
    assert report["machine"]["warp"]


def test_the_bench_for_people(run):
    text = run(*BENCH).stdout
    assert "1 mm, 0.01 rad" in text
    assert "One target: median" in text
    assert "2 threads:" in text


def test_a_robot_with_several_leaf_links_needs_one_named(run):
    assert "Give --link" in run("bench", "dual_panda", "--count", "5", code=2).output


def test_warmup_names_what_was_there_already(run):
    first = json.loads(run("warmup", "panda", "--device", "cpu", "--json").stdout)
    again = json.loads(run("warmup", "panda", "--device", "cpu", "--json").stdout)
    assert again["robots"][0]["compiled"] == 0
    assert again["cache"] == first["cache"]
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
        report = json.loads(run("warmup", "panda", "--device", "cpu", "--json").stdout)
        assert others in warmup_command.compiled_objects()
    finally:
        shutil.rmtree(others.parent)
    assert report["robots"][0]["compiled"] == 0


def test_warmup_refuses_an_unknown_link_and_robot(run):
    assert "panda_hand" in run("warmup", "panda", "--link", "tool", code=2).output
    assert "'pandas'" in run("warmup", "pandas", code=2).output


def test_without_names_warmup_takes_every_robot_and_leaf(monkeypatch):
    solved = []

    def note(robot, links, job):
        solved.append((robot.name, links))
        return "compiled", job.device, 0

    monkeypatch.setattr(warmup_command, "_solve_once", note)
    for warmed in warmup_command.warm_up(warmup_command.WarmUpJob(device="cpu")):
        assert warmed.compiled == 0
    assert {name for name, _ in solved} == set(builtin_robot_names())
    assert ("panda", ("panda_hand",)) in solved
    hands = ("left_panda_hand", "right_panda_hand")
    assert [links for name, links in solved if name == "dual_panda"] == [hands[:1], hands[1:], hands]


def test_links_that_are_named_are_solved_together():
    assert warmup_command.link_sets(load_robot("dual_panda"), ["a", "b"]) == [("a", "b")]


def test_warmup_for_gpus_takes_architectures_and_leaves_what_is_too_large(run, monkeypatch):
    asked = []

    def note(modules, architectures):
        asked.append((len(modules), architectures))
        return [object()] * 5

    monkeypatch.setattr(warmup_command, "compile_for_gpus", note)
    monkeypatch.setattr(ThreadLaunches, "step_entries_max", 240)  # all five limbs together have 307
    report = json.loads(run("warmup", "humanoid", "--device", "cuda", "--arch", "80,90", "--json").stdout)
    # Waves, what follows them, deadlines, clearances, and islands with and without a check.
    assert asked == [(6, (80, 90))] * 5
    assert [warmed["engine"] for warmed in report["robots"]] == ["compiled"] * 5 + ["staged"]
    assert [warmed["compiled"] for warmed in report["robots"]] == [5] * 5 + [0]
    assert {warmed["device"] for warmed in report["robots"]} == {"sm_80, sm_90"}


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


def test_warmup_refuses_architectures_that_there_are_not(run):
    assert "Architecture 33 is not known. Allowed: 75," in run(
        "warmup", "panda", "--device", "cuda", "--arch", "33", code=2
    ).output.replace("\n", " ")
    assert "--arch goes with --device cuda" in run("warmup", "panda", "--arch", "90", code=2).output
    assert "--arch goes with --device cuda" in run("warmup", "panda", "--device", "cuda", "--arch", "x", code=2).output


@pytest.mark.evidence
def test_warmup_for_positions_and_float64_leaves_nothing_to_compile(run):
    for options in (["--position-only"], ["--float64"]):
        run("warmup", "ur5e", "--device", "cpu", *options)
        again = json.loads(run("warmup", "ur5e", "--device", "cpu", *options, "--json").stdout)
        assert [warmed["compiled"] for warmed in again["robots"]] == [0]
