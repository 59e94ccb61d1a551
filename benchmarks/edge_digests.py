"""Digests of what leaves the edges, to show that a change of the code changes no byte of it, or where it does.

python benchmarks/edge_digests.py --write before.json       # on the code of before
python benchmarks/edge_digests.py --compare before.json     # on the code of after

Edges are HTTP in JSON, MessagePack and npz, the client's results, a stream, the files of the command line, parts of a
bulk job, and the exported C: header without comments, and what the example programs print. Times are blanked. Answers
depend on the CPU's level, so both runs belong on one machine. The exit code is 1 where a digest differs or is missing.
"""

import argparse
import hashlib
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import msgpack
import numpy as np
import pyarrow.parquet as pq
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from ik_service import load_robot
from ik_service.api import create_app
from ik_service.cli.app import app as command_line
from ik_service.client.messages.replies import read_reply, solve_result
from ik_service.settings import ServiceSettings

READY_TIMEOUT_S = 600.0  # the first solve on a machine compiles kernels
PROBLEMS = 40
OUT_OF_REACH = 5  # every so manieth target is moved away
ALL = ["active_limits", "advice", "islands", "solutions"]
HANDS = {"panda": ["panda_hand"], "dual_panda": ["left_panda_hand", "right_panda_hand"]}
MEDIA_TYPES = ("application/json", "application/msgpack", "application/x-npz")
TIMES_JSON = re.compile(rb'"timing_ms":\{[^}]*\}')
TIMES_TEXT = re.compile(r"[0-9.]+(e[-+][0-9]+)? (us|s)\b")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
TAG = re.compile(r"_ABI 0x[0-9a-f]+u")
POSE = {"positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}


def main() -> int:
    """Make the digests; write them, or compare them with those of before."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", type=Path, help="file to write the digests to")
    mode.add_argument("--compare", type=Path, help="file with the digests of before")
    arguments = parser.parse_args()
    found = {}
    for name, content in contents():
        found[name] = hashlib.sha256(content).hexdigest()
        print(f"{name:<50} {len(content):8d} {found[name][:16]}", flush=True)
    if arguments.write:
        arguments.write.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    known = json.loads(arguments.compare.read_text())
    changed = sorted(name for name in known.keys() | found.keys() if known.get(name) != found.get(name))
    print(f"{len(found)} digests, {len(changed)} differ" + "".join(f"\n  {name}" for name in changed))
    return int(bool(changed))


def contents() -> Iterator[tuple[str, bytes]]:
    """Yield the name of everything that is looked at, and its bytes."""
    application = create_app(ServiceSettings(device="cpu", insecure=True, log_level="error"), compile_apart=False)
    with TestClient(application) as client:
        application.state.service.warm_up.result(READY_TIMEOUT_S)
        for name, (robot, body) in _requests().items():
            for media_type in MEDIA_TYPES:
                included = [one for one in body.get("include", ()) if one != "islands" or media_type != MEDIA_TYPES[2]]
                asked = body | {"include": included}  # an archive holds no islands
                reply = client.post(f"/v1/robots/{robot}/solve", json=asked, headers={"accept": media_type})
                assert reply.status_code == 200, reply.text
                yield f"http, {name}, {media_type}", _without_times(media_type, reply.content)
                if not media_type.endswith("npz"):
                    yield f"client, {name}, {media_type}", _read_by_client(media_type, reply.content)
        yield from _stream(client)
    with tempfile.TemporaryDirectory() as folder:
        yield from _files(Path(folder))
    for robot in HANDS:
        with tempfile.TemporaryDirectory() as folder:
            yield from _exported(robot, Path(folder))


def _requests() -> dict[str, tuple[str, dict[str, Any]]]:
    """Robots and bodies, by what they show."""
    one, two = _targets("panda"), _targets("dual_panda")
    start = load_robot("dual_panda", collision="ignore").mid_joint_q[None].repeat(PROBLEMS, 0).tolist()
    weights = [[1, 1, 1, 0, 0, 0] if k % 2 else [0, 0, 0, 1, 1, 1] for k in range(PROBLEMS)]
    coupled = [two[0], two[1] | {"reference_link": "left_panda_hand"}]
    posture = {"type": "posture", "joint_q_reference": load_robot("panda", collision="ignore").mid_joint_q.tolist()}
    few = {"seeds": 4, "max_iterations": 20}
    return {
        "plain": ("panda", {"targets": one}),
        "all": ("panda", {"targets": one, "options": few, "include": ALL}),
        "positions": ("panda", {"targets": [{key: one[0][key] for key in ("link", "positions")}]}),
        "solutions": ("panda", {"targets": one, "options": {"seeds": 16, "solutions": 3}, "include": ALL}),
        "float64": ("panda", {"targets": one, "options": {"precision": "float64"}, "include": ["solutions"]}),
        "two targets": ("dual_panda", {"targets": two, "initial_joint_q": start, "include": ALL}),
        "weights": ("dual_panda", {"targets": [two[0] | {"row_weights": weights}], "include": ALL}),
        "one island": ("dual_panda", {"targets": coupled, "options": few, "include": ["islands"]}),
        "objectives": ("panda", {"objectives": [posture], "problem_count": 2, "include": ["islands", "advice"]}),
    }


def _targets(robot: str) -> list[dict[str, Any]]:
    """Poses of random configurations, some of them moved out of reach."""
    model, links, rng = load_robot(robot, collision="ignore"), HANDS[robot], np.random.default_rng(5)
    poses = model.forward_kinematics(model.random_joint_q(rng, PROBLEMS), links)
    positions, orientations = np.round(poses.positions, 9), np.round(poses.orientations_xyzw, 9)
    positions[::OUT_OF_REACH, 0] += 2.0
    return [
        {"link": link, "positions": positions[:, k].tolist(), "orientations_xyzw": orientations[:, k].tolist()}
        for k, link in enumerate(links)
    ]


def _without_times(media_type: str, body: bytes) -> bytes:
    """A body without the times that are in it."""
    if media_type.endswith("json"):
        return TIMES_JSON.sub(b"", body)
    if media_type.endswith("msgpack"):
        document = msgpack.unpackb(body)
        assert document.pop("timing_ms")
        return bytes(msgpack.packb(document))
    return _arrays(body, "timing_ms")


def _arrays(archive: bytes, *without: str) -> bytes:
    """Names, types, shapes and bytes of the arrays of an archive, but for some."""
    with np.load(io.BytesIO(archive)) as arrays:
        kept = [(name, arrays[name]) for name in arrays.files if name.partition(".")[0] not in without]
    return b"".join(f"{name} {one.dtype} {one.shape} ".encode() + one.tobytes() for name, one in kept)


def _read_by_client(media_type: str, body: bytes) -> bytes:
    """The fields of the client's result."""
    request = httpx2.Request("POST", "http://localhost")
    reply = httpx2.Response(200, headers={"content-type": media_type}, content=body, request=request)
    fields = vars(read_reply(reply, solve_result)) | {"timing_ms": None}
    return b"".join(f"{name} ".encode() + _text(fields[name]).encode() for name in sorted(fields))


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.tolist()}\n"
    if isinstance(value, tuple) and value and isinstance(value[0], dict) and "link" in value[0]:
        return "".join(f"{name} {_text(entry)}" for one in value for name, entry in one.items())
    return f"{value!r}\n"


def _stream(client: TestClient) -> Iterator[tuple[str, bytes]]:
    """What a stream answers in both forms."""
    ticks = [POSE | {"seq": 0}, POSE | {"positions": [[0.4, 0.1, 3.0]], "seq": 1}, POSE | {"seq": 2}]
    for form in ("json", "msgpack"):
        said = []
        with client.websocket_connect("/v1/robots/panda/stream") as stream:
            for message in [{"type": "configure", "targets": [{"link": "panda_hand"}]}, *ticks]:
                if form == "json":
                    stream.send_json(message)
                    said.append(stream.receive_text().encode())
                else:
                    stream.send_bytes(msgpack.packb(message))
                    said.append(stream.receive_bytes())
        yield f"stream, {form}", b"\n".join(said)


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Files of the command line and of bulk jobs, and what is printed besides."""
    target = _targets("panda")[0]
    columns = {name: np.array(target[name]) for name in ("positions", "orientations_xyzw")}
    np.savez(folder / "targets.npz", **columns)
    columns["positions"][3] = np.nan
    np.savez(folder / "faulty.npz", **columns)
    two = {"targets": _targets("dual_panda"), "include": ALL}
    (folder / "two.json").write_text(json.dumps(two))
    for robot, targets in (("panda", "targets.npz"), ("dual_panda", "two.json")):
        for form in ("csv", "npz", "json"):
            output = folder / f"{robot}.{form}"
            said = _run("solve", robot, str(folder / targets), "--output", str(output))
            content = output.read_bytes()
            content = _arrays(content) if form == "npz" else TIMES_JSON.sub(b"", content)
            yield f"command line, {robot}, {form}", content + said.replace(str(folder), "").encode()
    report = json.loads(_run("solve", "panda", "--random", "50", "--seed", "3", "--json"))
    yield "command line, report", json.dumps(report | {"time_per_problem_us": 0}).encode()
    for form in ("npz", "parquet"):
        for name in ("targets", "faulty"):
            output = folder / f"{name}-{form}"
            given = ["solve", "panda", str(folder / f"{name}.npz"), "--mark-faulty", "--part-rows", "16"]
            _run(*given, "--format", form, "--output", str(output))
            parts = sorted(output.glob("part-*"))
            yield f"bulk, {name}, {form}", b"".join(_part(path) for path in parts)


def _run(*arguments: str) -> str:
    """What the command line says, without times."""
    done = CliRunner().invoke(command_line, [*arguments, "--device", "cpu"])
    assert done.exit_code in (0, 1), done.output
    return TIMES_TEXT.sub("TIME", done.output)


def _part(path: Path) -> bytes:
    """A part of a bulk job without the digest of the job, in which times of files are."""
    if path.suffix == ".npz":
        notes = json.loads(str(np.load(path)["notes"]))
        content = _arrays(path.read_bytes(), "notes")
    else:
        table = pq.read_table(path)
        notes = json.loads(table.schema.metadata[b"ik_service"])
        units = [f"{field.name} {field.type} {field.metadata}" for field in table.schema]
        content = f"{units} {table.to_pydict()}".encode()
    notes.pop("job")
    return content + json.dumps(notes).encode()


def _exported(robot: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    """The header without comments, the examples, and what they print."""
    links = [argument for link in HANDS[robot] for argument in ("--link", link)]
    program = [sys.executable, "-c", "from ik_service.cli import main; main()"]  # for CPUs without AVX-512
    arguments = ["export", robot, *links, "--problems", "100", "--output", str(folder)]
    subprocess.run([*program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    header = COMMENT.sub("", TAG.sub("", (folder / f"{robot}_ik.h").read_text()))
    yield f"export, {robot}, header", header.encode()
    for program in ("example", "tick_example"):
        data = {"example": "problems.bin", "tick_example": "ticks.bin"}[program]
        yield f"export, {robot}, {data}", (folder / data).read_bytes()
        sources = [f"{program}.c", f"{robot}_ik.c", *(path.name for path in folder.glob("*.o"))]
        subprocess.run(["gcc", "-O2", "-std=c99", *sources, "-lm", "-o", program], cwd=folder, check=True)
        done = subprocess.run([f"./{program}", data], cwd=folder, capture_output=True, text=True, check=False)
        yield f"export, {robot}, {program}", TIMES_TEXT.sub("TIME", done.stdout + done.stderr).encode()


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        sys.exit(main())
