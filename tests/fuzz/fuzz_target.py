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
    from ik_service.robots import load_robot, load_urdf
    from ik_service.robots.readers.constraint_file import read_constraints
    from ik_service.service.codecs.json_codec import JsonCodec
    from ik_service.service.codecs.msgpack_codec import MsgpackCodec
    from ik_service.service.codecs.npz_codec import NpzCodec
    from ik_service.service.documents.solve_request import read_solve
    from objectives.errors import IKError

PANDA = load_robot("panda", collision="ignore")
BUILTIN = Path(sys.modules["ik_service"].__file__).with_name("robots") / "builtin"
MINI = b"""<robot name="r"><link name="a"/><link name="b"/><link name="c"/>
<joint name="j" type="revolute"><parent link="a"/><child link="b"/><origin xyz="0 0 1" rpy="0 0.1 0"/>
<axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
<joint name="k" type="prismatic"><parent link="b"/><child link="c"/><mimic joint="j" multiplier="2" offset="0.1"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
<constraint name="l" type="revolute"><parent link="a"/><parent_origin xyz="1 0 0"/><parent_axis xyz="0 0 1"/>
<child link="c"/><child_origin xyz="0 1 0"/></constraint></robot>"""
YAML = b"""loops:
- {name: l, joint: helical, link: c, offset: {xyz: [1, 0, 0], rpy: [0, 0, 1e-1]}, pitch: 0.1}
- {name: m, joint: distance, link: b, reference_link: a, distance: 1, reference_offset: [0, 0, 0, 0, 0, 0, 1]}
"""
JSON = (
    b'{"targets":[{"link":"panda_hand","positions":[[0.4,0.1,0.5]],"orientations_xyzw":[[1,0,0,0]],'
    b'"offset":{"position":[0,0,0.1]},"reference_link":"panda_link1","row_weights":[1,1,1,1,1,0]}],'
    b'"initial_joint_q":[[0,0,0,0,0,0,0]],"options":{"seeds":4,"random_seed":1},"include":["islands"]}'
)
OBJECTIVES = (
    b'{"objectives":[{"type":"look_at","link":"panda_hand","target_points":[[0.4,0,0]],"axis":[0,0,1],"weight":2},'
    b'{"type":"damping","joints":["panda_joint1"],"row_weights":[0.5]},{"type":"plane","link":"panda_hand",'
    b'"points":[0,0,0],"normals":[0,0,1],"offset":{"position":[0,0,0.1]}}],"initial_joint_q":[[0,0,0,0,0,0,0]],'
    b'"problem_count":1}'
)

BODY_LIMIT = 1_000_000


def packed(rows: list[list[float]], dtype: str) -> dict[str, object]:
    array = np.array(rows, dtype)
    return {"dtype": dtype, "shape": list(array.shape), "data": array.tobytes()}


def msgpack_seeds() -> list[bytes]:
    plain = orjson.loads(JSON)
    columns = {
        "positions": packed([[0.4, 0.1, 0.5]], "float32"),
        "orientations_xyzw": packed([[1, 0, 0, 0]], "float64"),
    }
    start = packed([[0.0] * 7], "float32")
    binary = {"targets": [{"link": "panda_hand", **columns}], "initial_joint_q": start}
    return [msgpack.packb(plain), msgpack.packb(binary), msgpack.packb(orjson.loads(OBJECTIVES))]


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
    "constraints": (read_beside, [YAML, b'{"loops": [{"name": "l", "joint": "weld", "link": "c"}]}'], "json.dict"),
    "urdf": (load_urdf, [MINI, (BUILTIN / "panda_gripper.urdf").read_bytes()], "urdf.dict"),
    "json": (read_json, [JSON, OBJECTIVES], "json.dict"),
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
