"""The generated code is C++ for 64-bit Arm as it stands: checked by a Clang, where one is at hand.

`clang-tidy` of PyPI is enough: it parses for any processor. Packets are as wide there as those of x86-64-v2.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import warp as wp

from ik_service.compiler.code.lanes import TARGETS

CLANG_LEAST = 19  # earlier ones lack functions of packets that Warp's own Clang has
WARMUP = "from ik_service.cli import main; main()"
# What Warp's compiler sets; register x28 is where its tiles stand on Arm.
FLAGS = ["--target=aarch64-linux-gnu", "-ffixed-x28", "-std=c++17", "-DNDEBUG", "-DWP_ENABLE_TILES_IN_STACK_MEMORY"]
LANGUAGE = ["-fms-extensions", "-fdeclspec", f"-I{Path(wp.__file__).with_name('native')}"]


def checker() -> list[str]:
    """The command that checks a file, but for the file and the flags."""
    for name, arguments in (("clang-tidy", ["--checks=-*,bugprone-infinite-loop"]), ("clang++", ["-fsyntax-only"])):
        found = shutil.which(name)
        if found is not None:
            printed = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
            if int(re.search(r"version (\d+)", printed).group(1)) >= CLANG_LEAST:
                return [found, *arguments]
    pytest.skip(f"Neither clang-tidy nor clang++ of version {CLANG_LEAST} or newer is installed.")


def check(command: list[str], path: Path) -> subprocess.CompletedProcess[str]:
    flags = [*FLAGS, *LANGUAGE]
    separator = ["--"] if "tidy" in Path(command[0]).name else []
    return subprocess.run([*command, path, *separator, *flags], capture_output=True, text=True, check=False)


@pytest.mark.evidence
def test_the_code_of_a_robot_is_code_for_arm64(tmp_path):
    command = checker()
    alike = next(target for target in TARGETS if target.name == "x86-64-v2")
    assert alike.register == TARGETS[-1].register
    environment = os.environ | {"WARP_CACHE_PATH": str(tmp_path), "IK_SERVICE_CPU_TARGET": alike.name}
    subprocess.run([sys.executable, "-c", WARMUP, "warmup", "panda", "--device", "cpu"], env=environment, check=True)
    sources = sorted(tmp_path.glob("*/*/*.cpp"))
    assert len(sources) == 2
    assert any(f"vector_size({alike.register})" in source.read_text() for source in sources)
    for source in sources:
        done = check(command, source)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = len(source.read_text().splitlines())
        sys.stdout.write(f"{source.parent.name}: {lines} lines, no error for {FLAGS[0]}\n")
        broken = tmp_path / "broken.cpp"
        broken.write_text(source.read_text() + "\nint broken() { return nothing; }\n")
        assert check(command, broken).returncode != 0
