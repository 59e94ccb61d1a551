"""What can be exported, and what the command does."""

import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import ik_service
from ik_service.cli.app import app
from ik_service.compiler import cpu_target
from ik_service.compiler.code.lanes import CPU_VARIABLE, choose_target, portable_target
from ik_service.export import export as export_module
from ik_service.export import export_solver
from ik_service.export.values import c_comment, c_number, c_string
from objectives import IKObjectivePosture, InputError


def command(monkeypatch, *arguments):
    monkeypatch.setenv(CPU_VARIABLE, cpu_target().name)  # a process generates code for one level
    return CliRunner().invoke(app, ["export", *arguments], env={"COLUMNS": "200"})


@pytest.mark.parametrize(
    "arguments",
    [
        {"engine": "staged"},
        {"objectives": [IKObjectivePosture(np.zeros(7))]},
        {"options": ik_service.SolverOptions(joint_limits="soft")},
        {"targets": [ik_service.Target("panda_hand", offset=np.tile([0, 0, 0, 0, 0, 0, 1.0], (2, 1)))]},
    ],
)
def test_solvers_of_anything_but_pose_targets_are_refused(arguments):
    robot = ik_service.load_robot("panda", collision="ignore")
    solver = ik_service.IKSolver(robot, **{"targets": ["panda_hand"], "device": "cpu", **arguments})
    with pytest.raises(ik_service.EngineError, match="can be exported"):
        export_solver(solver)


def test_solving_goes_on_as_before_after_an_export(panda):
    positions, orientations = panda.targets(20)
    fresh = ik_service.IKSolver(panda.solver.robot, ["panda_hand"], device="cpu")
    before = fresh.solve(positions, orientations)
    fresh.recorded()
    assert fresh.solve(positions, orientations).joint_q.tobytes() == before.joint_q.tobytes()
    only = fresh.solve(positions)
    assert np.isnan(only.orientation_error).all()
    assert only.success.all()


def test_numbers_in_c_are_exact():
    values = [0.0, -0.0, 1.0, -1.5, np.pi, 1e-310, 2.0**60, float(np.float32(0.1))]
    assert [float.fromhex(c_number(value, "double")) for value in values] == values
    assert c_number(-0.0, "float") == "-0x0p+0f"
    assert c_number(0.5, "float") == "0x1p-1f"
    assert [c_number(value, "double") for value in (np.inf, -np.inf, np.nan)] == ["INFINITY", "-INFINITY", "NAN"]
    assert c_number(2**32 - 1, "uint32_t") == "4294967295u"


def test_names_cannot_break_out_of_the_source():
    assert c_string('a"b\\c') == r'"a\"b\\c"'
    assert c_string("what??/") == r'"what\?\?/"'
    assert c_string("ä1") == r'"\303\2441"' or c_string("ä1") == r'"\303\244\061"'
    assert "*/" not in c_comment("a */ int x; /* b")
    assert "\n" not in c_comment("a\nb")


@pytest.mark.evidence
def test_the_command_writes_the_files_and_says_so(panda, tmp_path, monkeypatch):
    made = dict(zip(("arm_io", "arm_islands", "arm_tick"), panda.export.objects, strict=True))  # not compiled again
    made["arm_verdict"] = made["arm_io"]
    monkeypatch.setattr(export_module, "compile_object", lambda name, *_: replace(made[name], name=name))
    own = ("--link", "panda_hand", "-o", str(tmp_path / "c"))
    done = command(monkeypatch, "panda", "--prefix", "arm", "--problems", "9", *own)
    assert done.exit_code == 0, done.output
    written = {path.name for path in (tmp_path / "c").iterdir()}
    sources = {"arm_ik.h", "arm_ik.c", "CMakeLists.txt", "README.md"}
    of_solve = {"example.c", "problems.bin", "arm_io.o", "arm_islands.o", "arm_verdict.o"}
    of_tick = {"tick_example.c", "ticks.bin", "arm_tick.o"}
    assert written == sources | of_solve | of_tick
    assert set(re.findall(r"c/(\S+) \(\d+ bytes\)", done.stdout.replace("\n", ""))) == written
    assert f"level {cpu_target().name}" in done.stderr
    for entry, files in (("solve", of_solve), ("tick", of_tick)):
        own = ("--entry", entry, "--position-only", "-o", str(tmp_path / entry))
        done = command(monkeypatch, "panda", "--prefix", "arm", "--problems", "9", *own)
        assert done.exit_code == 0, done.output
        assert {path.name for path in (tmp_path / entry).iterdir()} == sources | files


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["panda", "--prefix", "9"], "prefix"),
        (["dual_panda"], "several leaf links"),
        (["panda", "--target", "z80"], "--target is 'z80'. This machine runs"),
        (["nobody"], "nobody"),
        (["panda", "--entry", "walk"], "solve or tick"),
    ],
)
def test_the_command_tells_what_is_wrong(tmp_path, monkeypatch, arguments, said):
    done = command(monkeypatch, *arguments, "-o", str(tmp_path))
    assert done.exit_code == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("prefix", ["", "1a", "A", "a-b", "a b"])
def test_prefixes_that_are_no_identifiers_and_folders_that_cannot_be_written_are_refused(panda, tmp_path, prefix):
    with pytest.raises(InputError, match="prefix"):
        export_solver(panda.solver, prefix=prefix)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Cannot write"):
        panda.export.write(tmp_path / "file")


def test_portable_code_is_the_highest_below_avx_512():
    target = portable_target()
    assert target.name != "x86-64-v4"
    assert target == choose_target(target.machine, target.needs, None)
