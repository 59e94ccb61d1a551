"""`docs/bulk.md` shows what happens, and `ik-service solve` says what it does with a bulk job."""

import itertools
import json
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from ik_service import SolverOptions, load_robot
from ik_service.cli import bulk_command
from ik_service.cli.app import app
from ik_service.integrations.bulk import read_results
from ik_service.integrations.bulk.job import PART_ROWS
from objectives import InputError
from tests.integrations.bulk.bulk_files import COUNT, LINK, directly, random_columns, write_targets

TEXT = (Path(__file__).parents[3] / "docs" / "bulk.md").read_text()


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.stderr


def blocks(language):
    found = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    assert found
    return found


def test_a_folder_without_results_is_told(tmp_path):
    with pytest.raises(InputError, match="holds no results of a bulk job"):
        read_results(tmp_path / "nowhere")


def test_the_document_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for block in blocks("python"):
        exec(compile(block, "bulk.md", "exec"), {})
    assert "(20050, 7)" in capsys.readouterr().out
    lines = [line.partition("#")[0] for line in "".join(blocks("sh")).splitlines()]
    told = [run(*shlex.split(line)[1:]) for line in lines if "--ray" not in line]
    assert [text.startswith("20050 of 20050 solved for panda_hand in") for text in told] == [True, True]
    assert [text.endswith("2 parts in results, 2 of them from before.\n") for text in told] == [False, True]
    ours, theirs = read_results("my_results"), read_results("results")
    np.testing.assert_array_equal(ours["joint_q"], theirs["joint_q"])


@pytest.mark.parametrize("links", [("panda_hand",), ("left_panda_hand", "right_panda_hand")])
def test_the_columns_of_the_document_are_those_of_the_results(tmp_path, links):
    robot = load_robot("panda" if len(links) == 1 else "dual_panda")
    targets = write_targets(tmp_path / "t.npz", random_columns(robot, list(links), 3))
    flags = [word for link in links for word in ("--link", link)]
    run("solve", robot.name, targets, "-o", tmp_path / "results", "--format", "npz", *flags)
    table = TEXT.partition("## Results")[2].partition("\n## ")[0]
    told = [name for row in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    several = [name for name in told if name.startswith("target_")]
    assert len(several) == 2
    assert set(read_results(tmp_path / "results")) == set(told) - (set(several) if len(links) == 1 else set())
    assert json.loads((tmp_path / "results" / "_job.json").read_text())["part_rows"] == PART_ROWS
    assert f"`--part-rows` problems ({PART_ROWS})" in TEXT


def test_the_command_writes_the_format_that_is_asked_for_and_counts_failures(tmp_path, columns, monkeypatch):
    columns["positions"][::3] += 5.0
    clock = itertools.count(10)  # a second at each look
    monkeypatch.setattr(bulk_command, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    targets = write_targets(tmp_path / "t.npz", columns)
    flags = ("--device", "cpu", "--seeds", 4, "--max-iterations", 20)
    told = run("solve", "panda", targets, "--link", LINK, "-o", tmp_path / "results", "--format", "npz", *flags)
    assert sorted(path.name for path in (tmp_path / "results").glob("part*")) == ["part-000000.npz"]
    answer = directly(columns, options=SolverOptions(seeds=4, max_iterations=20))
    np.testing.assert_array_equal(read_results(tmp_path / "results")["joint_q"], answer.joint_q)
    assert f"{answer.success.sum()} of {COUNT} solved for {LINK} in {next(clock) - 11} s, 1 part in" in told
    assert re.search(r"Without success: .*stalled \d+", told)


def test_what_no_job_can_do_is_refused(tmp_path, columns, monkeypatch):
    targets = write_targets(tmp_path / "t.parquet", columns)
    npz = write_targets(tmp_path / "t.npz", columns)
    results = tmp_path / "results"
    assert "give --output FOLDER" in run("solve", "panda", targets, code=2)
    assert "give --output FOLDER" in run("solve", "panda", targets, "-o", tmp_path / "out.npz", code=2)
    assert "Allowed: parquet, npz" in run("solve", "panda", targets, "-o", results, "--format", "csv", code=2)
    assert "'.csv'" in run("solve", "panda", tmp_path / "t.csv", "-o", results, code=2)
    assert "--random" in run("solve", "panda", "--random", 3, "--ray", "local", code=2)
    assert "has no column" not in run("solve", "panda", npz, "-o", results, "--column", "positions")
    assert "another job: columns" in run("solve", "panda", npz, "-o", results, code=2)
    columns["positions"][7, 0] = np.nan
    faulty = write_targets(tmp_path / "faulty.npz", columns)
    assert "row 7: " in run("solve", "panda", faulty, "-o", tmp_path / "f", "--part-rows", 100, code=1)
    told = run("solve", "panda", faulty, "-o", tmp_path / "f", "--part-rows", 100, "--mark-faulty")
    assert "invalid 1." in told
    assert "6 parts in" in told
    assert "5 of them from before" in told
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install" in run("solve", "panda", npz, "-o", tmp_path / "r", "--ray", "auto", code=2)


def test_progress_is_told_in_lines_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(bulk_command, "LINE_EVERY_S", 0.0)
    with bulk_command.reported_progress() as progress:
        for done in (0, 50, 100):
            progress(done, 100)
    assert capsys.readouterr().err.splitlines() == ["0 of 100 problems (0.0 %)", "50 of 100 problems (50.0 %)"]


def test_the_figures_of_the_document_are_those_of_the_benchmark():
    measured = (Path(__file__).parents[3] / "benchmarks" / "scale" / "bulk.md").read_text()
    figures = re.search(r"solve (\S+) times as many problems as one, (\d+) a second", TEXT).groups()
    assert [figure for figure in figures if not re.search(rf"\b{figure}\b", measured)] == []
