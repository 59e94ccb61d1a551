"""Readers of untrusted bytes, fuzzed for ten minutes each: no crash, no hang, no more memory than there may be."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TARGET = Path(__file__).with_name("fuzz_target.py")
READERS = ["constraints", "urdf", "json", "msgpack", "npz"]
SECONDS = int(os.environ.get("FUZZ_SECONDS", "600"))
LIMITS = ["-timeout=1", "-rss_limit_mb=1024", "-max_len=65536"]  # [s], [MiB], [bytes]
LEAST_RUNS_PER_SECOND = 20  # fewer would mean that nearly nothing was tried


@pytest.mark.evidence
def test_no_bytes_break_a_reader(tmp_path):
    runs = {}
    for reader in READERS:
        corpus = tmp_path / reader
        corpus.mkdir()
        options = [
            *LIMITS,
            f"-max_total_time={SECONDS}",
            f"-artifact_prefix={tmp_path}/{reader}-",
            "-print_final_stats=1",
        ]
        command = [sys.executable, str(TARGET), reader, str(corpus), *options]
        runs[reader] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for reader, run in runs.items():
            output, _ = run.communicate(timeout=SECONDS + 300)
            found = sorted(path.name for path in tmp_path.glob(f"{reader}-*"))
            assert run.returncode == 0, f"{reader}: {found}\n{output[-4000:]}"
            assert not found
            count = int(re.findall(r"number_of_executed_units: (\d+)", output)[-1])
            slowest = re.findall(r"slowest_unit_time_sec: +(\d+)", output)[-1]
            peak = re.findall(r"peak_rss_mb: +(\d+)", output)[-1]
            sys.stdout.write(f"\n{reader}: {count} inputs in {SECONDS} s, slowest {slowest} s, at most {peak} MiB\n")
            assert count > LEAST_RUNS_PER_SECOND * SECONDS
    finally:
        for run in runs.values():
            run.kill()
