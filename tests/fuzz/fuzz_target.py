"""One reader of untrusted bytes under libFuzzer, by way of atheris: `python fuzz_target.py urdf CORPUS [options]`.

Any bytes must end in a value or in an error of ours. What else comes out, takes longer than the time limit or more
memory than the memory limit stops the run with the input that did it.
"""

import io
import sys
from contextlib import suppress
from pathlib import Path

import atheris
import msgpack
import numpy as np
import orjson

with atheris.instrument_imports(include=["ik_service", "objectives"]):
    from ik_service.robots import builtin_urdf, load_robot, load_urdf
    from ik_service.robots.readers.constraint_file import read_constraints
    from ik_service.service.codecs.json_codec import JsonCodec
    from ik_service.service.codecs.msgpack_codec import MsgpackCodec
    from ik_service.service.codecs.npz_codec import NpzCodec
    from ik_service.service.documents.solve_request import read_solve
    from objectives.errors import IKError

PANDA = load_robot("panda", collision="ignore")
SEEDS = {path.name: path.read_bytes() for path in Path(__file__).with_name("seeds").iterdir()}
BODY_LIMIT = 1_000_000


def packed(rows: list[list[float]], dtype: str) -> dict[str, object]:
    array = np.array(rows, dtype)
    return {"dtype": dtype, "shape": list(array.shape), "data": array.tobytes()}


def msgpack_seeds() -> list[bytes]:
    plain, objectives = (orjson.loads(SEEDS[name]) for name in ("targets.json", "objectives.json"))
    columns = {
        "positions": packed([[0.4, 0.1, 0.5]], "float32"),
        "orientations_xyzw": packed([[1, 0, 0, 0]], "float64"),
    }
    start = packed([[0.0] * 7], "float32")
    binary = {"targets": [{"link": "panda_hand", **columns}], "initial_joint_q": start}
    return [msgpack.packb(plain), msgpack.packb(binary), msgpack.packb(objectives)]


def npz_seeds() -> list[bytes]:
    arrays = {"positions": np.zeros((1, 3), np.float32), "orientations_xyzw": np.eye(4)[:1]}
    seeds = []
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, **arrays)
        seeds.append(stream.getvalue())
    return seeds


def read_json(data: bytes) -> None:
    read_solve(JsonCodec().decode(data), PANDA)


def read_msgpack(data: bytes) -> None:
    read_solve(MsgpackCodec().decode(data), PANDA)


def read_npz(data: bytes) -> None:
    read_solve(NpzCodec().decode(data, "link=panda_hand&seeds=4", BODY_LIMIT), PANDA)


def read_beside(data: bytes) -> None:
    """Read a document of constraints, which ends in warnings and never in an error."""
    try:
        read_constraints(data, "document")
    except IKError as error:
        raise AssertionError("a robot is read whatever its constraints are") from error


READERS = {
    "constraints": (read_beside, [SEEDS["loops.yaml"], SEEDS["loop.json"]], "json.dict"),
    "urdf": (load_urdf, [SEEDS["followers_and_a_loop.urdf"], builtin_urdf("panda_gripper")], "urdf.dict"),
    "json": (read_json, [SEEDS["targets.json"], SEEDS["objectives.json"]], "json.dict"),
    "msgpack": (read_msgpack, msgpack_seeds(), "json.dict"),
    "npz": (read_npz, npz_seeds(), "npz.dict"),
}


def main() -> None:
    """Fuzz the reader that the first argument names; the others go to libFuzzer, the second being its corpus."""
    read, seeds, words = READERS[sys.argv[1]]
    corpus = Path(sys.argv[2])
    for number, seed in enumerate(seeds):
        (corpus / f"seed{number}").write_bytes(seed)

    def test_one_input(data: bytes) -> None:
        with suppress(IKError):
            read(data)

    dictionary = Path(__file__).with_name(words)
    atheris.Setup([sys.argv[0], str(corpus), f"-dict={dictionary}", *sys.argv[3:]], test_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
