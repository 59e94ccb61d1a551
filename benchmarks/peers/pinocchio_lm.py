"""The Pinocchio loop of pinocchio_lm.cpp: `python pinocchio_lm.py PROBLEMS.npz ANSWERS.npz`.

Runs in an environment of its own, which has Pinocchio's libraries and headers, and compiles the loop there on first
use with the system's g++. With PROBLEMS.npz left out it only compiles.
"""

import hashlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib import metadata
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_suffix(".cpp")
PREFIX = Path(sysconfig.get_paths()["purelib"]) / "cmeel.prefix"
INCLUDES = ("", "eigen3", "urdfdom", "urdfdom_headers")
LIBRARIES = ("pinocchio_parsers", "coal", "urdfdom_model", "urdfdom_world")
FLAGS = (
    "-O3",
    "-march=native",
    "-DNDEBUG",
    "-std=c++17",
    # Boost's limits that Pinocchio's joint variant needs
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
    "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30",
    "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "-DBOOST_FUSION_INVOKE_MAX_ARITY=12",
    # the library was built for plain SSE: with wider vectors Eigen would free what the library allocated in another way
    "-DEIGEN_MAX_ALIGN_BYTES=16",
    "-DEIGEN_MALLOC_ALREADY_ALIGNED=1",
)


def build() -> Path:
    """Return the program, compiled when its source or the flags have changed."""
    digest = hashlib.sha256(SOURCE.read_bytes() + repr(FLAGS).encode()).hexdigest()[:12]
    program = Path(sys.prefix) / f"pinocchio_lm_{digest}"
    if not program.exists():
        if shutil.which("g++") is None:
            sys.exit("There is no g++, which compiles the loop on Pinocchio.")
        includes = [f"-I{PREFIX / 'include' / folder}" for folder in INCLUDES]
        libraries = [f"-L{PREFIX / 'lib'}", f"-Wl,-rpath,{PREFIX / 'lib'}", *(f"-l{name}" for name in LIBRARIES)]
        unfinished = program.with_suffix(".new")
        command = ["g++", *FLAGS, *includes, str(SOURCE), "-o", str(unfinished), *libraries]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            sys.exit("\n".join(line for line in done.stderr.splitlines() if "error" in line)[:2000])
        unfinished.rename(program)
    return program


def main() -> None:
    """Solve the problems several times and save the answers with the CPU time of every target in every run."""
    program = build()
    if len(sys.argv) < 3:
        return
    problems = np.load(sys.argv[1])
    targets = np.concatenate([problems["positions"], problems["orientations_xyzw"]], axis=2).astype(np.float64)
    count, repeats = len(targets), int(problems["repeats"])
    settings = [problems[name] for name in ("seeds", "iterations", "position_tolerance", "orientation_tolerance")]
    with tempfile.TemporaryDirectory() as folder:
        given, answers, scenes = (Path(folder, name) for name in ("targets", "answers", "scenes"))
        targets.tofile(given)
        if "scenes" in problems:
            scenes.write_text(str(problems["scenes"]))
        kept = scenes if "scenes" in problems else "-"
        words = [str(problems["urdf"]), given, answers, *settings, repeats, kept, *problems["links"]]
        done = subprocess.run([program, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True)
        joint_names = done.stdout.split()
        joint_q, _, times = np.split(np.fromfile(answers), np.cumsum([count * len(joint_names), count]))
    found = {"joint_names": joint_names, "joint_q": joint_q.reshape(count, -1), "times": times.reshape(repeats, count)}
    np.savez(sys.argv[2], **found, version=metadata.version("libpinocchio"))


if __name__ == "__main__":
    main()
