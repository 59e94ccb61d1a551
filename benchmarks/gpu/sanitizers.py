"""compute-sanitizer over small solves: wrong accesses, races, memory that nobody filled, barriers."""

import shutil
import subprocess
import sys

import warp as wp

from benchmarks.report import Report

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TOOL_S = 200.0


def show_sanitizers(report: Report, device: wp.Device) -> None:
    """Report what compute-sanitizer finds, where it is installed; all its tools run side by side."""
    report.section("compute-sanitizer", "Laws of 64 Panda targets by this program under each tool.")
    program = shutil.which("compute-sanitizer")
    if program is None or not device.is_cuda:
        report.line("Not run: there is no compute-sanitizer here, or no card.")
        return
    own = [sys.executable, "-m", "benchmarks.first_contact", "--device", str(device)]
    own += ["--steps", "laws", "--count", "64", "--robots", "panda"]
    running = {
        tool: subprocess.Popen(
            [program, "--tool", tool, "--error-exitcode", "9", *own], stdout=subprocess.PIPE, text=True
        )
        for tool in TOOLS
    }
    for tool, process in running.items():
        try:
            said, code = process.communicate(timeout=TOOL_S)[0].strip().splitlines()[-1:], str(process.returncode)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            said, code = [f"not done in {TOOL_S:g} s"], "none"
        report.claim(f"{tool}: exit code", f"{code} ({' '.join(said)})", "0", code == "0")
