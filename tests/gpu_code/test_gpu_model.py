"""The model of the machine code of kernels: what it reads, where it parts the loop, and the times that follow."""

import numpy as np
import pytest

import ik_service
from benchmarks.gpu_model.attempts import Attempts, WaveSimulation
from benchmarks.gpu_model.cards import H200, RTX_4090
from benchmarks.gpu_model.flow import is_far, parts_of
from benchmarks.gpu_model.issue import steps_of, wall_time
from benchmarks.gpu_model.kernels import island_code
from benchmarks.gpu_model.sass import CONTROL_BIT, DISASSEMBLER, NO_BARRIER, disassembler, read_listing
from tests.gpu_code.cubins import island_kernels


def is_installed():
    try:
        disassembler()
    except FileNotFoundError:
        return False
    return True


def line(address, text, stall=1, write=NO_BARRIER, read=NO_BARRIER, waits=0):
    """An instruction as the disassembler writes it."""
    control = stall | 1 << 4 | write << 5 | read << 8 | waits << 11
    upper = control << CONTROL_BIT
    return (
        f"        /*{address:04x}*/                   {text} ;    /* 0x{0x7221:016x} */\n"
        f"                                                       /* 0x{upper:016x} */\n"
    )


def listing(*texts):
    """Code of instructions, whose first words are texts or texts with numbers of control, and of labels."""
    lines = []
    for k, given in enumerate(texts):
        text, control = (given, {}) if isinstance(given, str) else given
        lines.append(f"{text}\n" if text.endswith(":") else line(16 * k, text, **control))
    return read_listing("\t.target\tsm_90\n" + "".join(lines))


REFILL = ("ATOMG.E.ADD.STRONG.GPU PT, R1, desc[UR4][R2.64], R1", "LDG.E R5, desc[UR4][R6.64]")
ITERATION = ("FFMA R1, R2, R3, R1", "FMUL R2, R2, R2", "FFMA R4, R4, R4, R4")


def names(part):
    return [one.name for one in part]


def test_an_instruction_is_read_with_what_it_tells_the_scheduler():
    text = '\t//## File "/a/attempt.py", line 7 inlined at "/a/kernel.py", line 9\n\t//## File "/a/kernel.py", line 9\n'
    text += line(0x20, "@!P0 LDG.E R5, desc[UR4][R6.64]", stall=3, write=2, waits=0b100001)
    text += line(0x30, "STG.E desc[UR4][R6.64], R5", stall=11, read=4, waits=0b100)
    (load, store) = read_listing(text).instructions
    assert (load.address, load.predicate, load.name, load.operation) == (0x20, "@!P0", "LDG", "LDG.E")
    assert (load.stall, load.write_barrier, load.read_barrier, load.waits) == (3, 2, None, (0, 5))
    assert (store.stall, store.write_barrier, store.read_barrier, store.waits) == (11, None, 4, (2,))
    assert load.places == store.places == (("/a/attempt.py", 7), ("/a/kernel.py", 9))
    with pytest.raises(ValueError, match="no instruction"):
        read_listing("\t.target\tsm_90\n")


def test_the_loop_is_parted_by_its_branches():
    head = ("MOV R1, RZ", ".L_x_0:", "ISETP.NE.AND P0, PT, R1, RZ, PT")
    skipped = ".L_x_1:", "@P1 BRA `(.L_x_2)"
    tail = (".L_x_2:", "WARPSYNC.ALL", "@!P2 BRA `(.L_x_0)", "EXIT")
    inside = listing(*head, "@P0 BRA `(.L_x_1)", *REFILL, *skipped, *ITERATION, *tail, "NOP")
    apart = listing(
        *head,
        "@!P0 BRA `(.L_x_3)",
        ".L_x_1:",
        "@P1 BRA `(.L_x_2)",
        *ITERATION,
        *tail,
        ".L_x_3:",
        *REFILL,
        "BRA `(.L_x_1)",
    )
    for code in (inside, apart):
        parts = parts_of(code)
        assert names(parts.refill)[:2] == ["ATOMG", "LDG"]
        assert names(parts.iteration) == ["FFMA", "FMUL", "FFMA"]
        assert {"ISETP", "WARPSYNC"} <= set(names(parts.rest))
        assert "MOV" not in names(parts.rest)
        assert parts.left_out == 0
    with pytest.raises(ValueError, match="no refill and iteration"):
        parts_of(listing(*head, "@P1 BRA `(.L_x_2)", *ITERATION, *tail))


def test_what_is_rare_and_what_belongs_to_one_problem_is_told_by_source_lines(tmp_path):
    source = tmp_path / "draws.py"
    source.write_text("value = nearly_normal(bits)\nproblem = task.problem[place]\nx = 1\n")
    text = line(0, "MOV R1, RZ") + ".L_x_0:\n" + line(16, "@P0 BRA `(.L_x_1)") + line(32, REFILL[0])
    for k, instruction in enumerate(("FADD R1, R1, R1", "LDG.E R2, desc[UR4][R6.64]", "LDG.E R3, desc[UR4][R6.64]")):
        text += f'\t//## File "{source}", line {k + 1}\n' + line(48 + 16 * k, instruction)
    text += ".L_x_1:\n" + line(96, "@P1 BRA `(.L_x_2)") + line(112, ITERATION[0])
    text += ".L_x_2:\n" + line(128, "@P2 BRA `(.L_x_0)") + line(144, "EXIT")
    parts = parts_of(read_listing(text))
    assert names(parts.refill) == ["ATOMG", "LDG", "LDG"]
    assert parts.left_out == 1
    assert [is_far(one) for one in parts.refill] == [False, True, False]


def test_warps_hide_each_others_stalls_and_wait_for_loads():
    chain = steps_of(listing(*[("FFMA R1, R1, R1, R1", {"stall": 4})] * 50).instructions, H200)
    assert wall_time(chain, 1, 2) == pytest.approx(400, abs=4)
    assert wall_time(chain, 4, 2) == pytest.approx(400, abs=8)
    assert wall_time(chain, 8, 2) == pytest.approx(800, abs=8)  # one instruction a cycle
    load = ("LDG.E R1, desc[UR4][R2.64]", {"write": 0})
    use = ("FADD R1, R1, R1", {"waits": 1})
    waiting = steps_of(listing(load, use).instructions, H200)
    assert wall_time(waiting, 1, 1) == pytest.approx(H200.near + 1)
    assert wall_time(waiting, 1, 10) == pytest.approx(10 * (H200.near + 1), abs=10)
    doubles = listing(*["DADD R2, R2, R4"] * 20).instructions
    assert wall_time(steps_of(doubles, RTX_4090), 1, 1) > 10 * wall_time(steps_of(doubles, H200), 1, 1)


def test_threads_work_through_the_attempts_of_waves():
    evaluations = np.full((8, 3), 5)
    succeeds = np.array([[k < 4, True, True] for k in range(8)])
    attempts = Attempts(evaluations, succeeds)
    assert attempts.per_target() == (1.5, 7.5)
    first, second = WaveSimulation(attempts, 64, 16, 64, resident=64, steps=4).run()
    assert first.warps.tolist() == [2, 2]  # all at once, in two rounds
    assert first.refilled.tolist() == [2, 0]
    assert second.warps.tolist() == [2, 2]  # the other half, two seeds each
    (alone,) = WaveSimulation(attempts, 4, 16, 4, resident=4, steps=4).run()
    assert alone.warps.tolist() == [1, 1]
    (queued,) = WaveSimulation(attempts, 4, 16, 4, resident=1, steps=8).run()
    assert queued.warps.tolist() == [1, 1, 1, 1]


@pytest.mark.skipif(not is_installed(), reason=f"{DISASSEMBLER} is not installed; the extra 'test' brings it")
def test_refill_and_iteration_are_found_in_the_kernel_of_an_arm():
    robot = ik_service.load_robot("ur5e", collision="ignore")
    (kernel,) = island_kernels(ik_service.IKSolver(robot, ["tool0"], device="cpu", engine="compiled"))
    code = island_code(kernel, H200)
    parts = code.parts
    assert code.dofs == 6
    assert 64 < code.registers <= 168
    assert code.warps == 3
    assert 500 < len(parts.iteration) < 1500
    assert sum(name in ("FFMA", "FMUL", "FADD") for name in names(parts.iteration)) > 0.7 * len(parts.iteration)
    assert "ATOMG" in names(parts.refill)
    assert not {"ATOMG", "STG"} & set(names(parts.iteration))
    assert 0 < sum(map(is_far, parts.refill)) < 50
    assert parts.left_out > 0
    steps = steps_of(parts.iteration, H200)
    assert len(steps) < wall_time(steps, 1, 2) / 2 < 3 * len(steps)
    assert wall_time(steps, 3, 2) / 6 < wall_time(steps, 1, 2) / 2
