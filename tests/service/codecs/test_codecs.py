"""The same problems in every codec: equal answers, and bodies that no client should send."""

import io
import json
import zipfile
from typing import Any

import msgpack
import numpy as np
import pytest

from ik_service import load_robot
from ik_service.service.codecs.msgpack_codec import MSGPACK_CONTAINERS_MAX
from ik_service.service.codecs.npz_codec import MEMBERS_MOST, NpzCodec

TOO_MANY = MSGPACK_CONTAINERS_MAX + 1
URL = "/v1/robots/panda/solve"
JSON, MSGPACK, NPZ = "application/json", "application/msgpack", "application/x-npz"
COUNT = 20
FLOAT32_STEP = 1e-5  # targets rounded to float32 move the answer about as much [rad]


def packed(array: Any, dtype: str = "float64") -> dict[str, Any]:
    rows = np.asarray(array, dtype)
    return {"dtype": dtype, "shape": list(rows.shape), "data": rows.tobytes()}


def unpacked(document: Any) -> Any:
    """A document of MessagePack with its columns as arrays."""

    def column(entries: dict[str, Any]) -> Any:
        if set(entries) != {"dtype", "shape", "data"}:
            return entries
        return np.frombuffer(entries["data"], entries["dtype"]).reshape(entries["shape"])

    return msgpack.unpackb(document, object_hook=column)


def archive(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


@pytest.fixture(scope="module")
def poses():
    panda = load_robot("panda")
    reached = panda.forward_kinematics(panda.random_free_joint_q(np.random.default_rng(5), COUNT), links=["panda_hand"])
    return reached.positions[:, 0], reached.orientations_xyzw[:, 0]


def post(client, content: bytes, kind: str, accept: str | None = None, query: str = "") -> Any:
    return client.post(
        URL + query, content=content, headers={"Content-Type": kind, **({"Accept": accept} if accept else {})}
    )


@pytest.fixture(scope="module")
def by_json(client, poses):
    target = {"link": "panda_hand", "positions": poses[0].tolist(), "orientations_xyzw": poses[1].tolist()}
    return post(client, json.dumps({"targets": [target], "options": {"seeds": 32}}).encode(), JSON).json()


def test_msgpack_brings_the_columns_of_the_json(client, poses, by_json):
    target = {"link": "panda_hand", "positions": packed(poses[0]), "orientations_xyzw": packed(poses[1])}
    reply = post(client, msgpack.packb({"targets": [target], "options": {"seeds": 32}}), MSGPACK)
    assert reply.headers["content-type"] == MSGPACK
    answer = unpacked(reply.content)
    assert set(answer) == {*by_json, "status_names"}
    assert answer["joint_q"].dtype == np.float32
    assert answer["joint_q"].tolist() == np.array(by_json["joint_q"], np.float32).tolist()
    assert answer["success"].dtype == bool
    assert answer["status"].dtype == np.uint8
    assert [answer["status_names"][code] for code in answer["status"]] == by_json["status"]
    assert answer["iterations"].tolist() == by_json["iterations"]
    assert answer["seed_index"].tolist() == by_json["seed_index"]
    for name in ("position_error_m", "orientation_error_rad", "cost"):
        assert answer[name].tolist() == pytest.approx(by_json[name]), name


def test_msgpack_takes_plain_lists_too(client, poses, by_json):
    target = {"link": "panda_hand", "positions": poses[0].tolist(), "orientations_xyzw": packed(poses[1])}
    reply = post(client, msgpack.packb({"targets": [target], "options": {"seeds": 32}}), MSGPACK, JSON)
    assert reply.json()["joint_q"] == by_json["joint_q"]


def test_float32_columns_reach_the_solver_as_they_are(client, poses, by_json, monkeypatch):
    taken = []
    submit = client.app.state.service.pool.submit
    monkeypatch.setattr(
        client.app.state.service.pool, "submit", lambda *a, **k: (taken.append(a[1]), submit(*a, **k))[1]
    )
    columns = {"positions": packed(poses[0], "float32"), "orientations_xyzw": packed(poses[1], "float32")}
    content = msgpack.packb({"targets": [{"link": "panda_hand", **columns}], "options": {"seeds": 32}})
    answer = unpacked(post(client, content, MSGPACK).content)
    assert taken[0].arrays.positions[0].dtype == np.float32
    assert answer["success"].all()
    near = np.abs(answer["joint_q"] - np.array(by_json["joint_q"])).max(axis=1) < FLOAT32_STEP
    assert near.mean() > 0.8  # a target rounded anew may find another of its solutions


def test_npz_brings_the_columns_of_the_json(client, poses, by_json):
    content = archive(positions=poses[0], orientations_xyzw=poses[1])
    reply = post(client, content, NPZ, query="?link=panda_hand&seeds=32&include=active_limits&include=advice")
    assert reply.headers["content-type"] == NPZ, reply.text
    answer = np.load(io.BytesIO(reply.content), allow_pickle=False)
    assert answer["joint_q"].tolist() == np.array(by_json["joint_q"], np.float32).tolist()
    assert [str(answer["status_names"][code]) for code in answer["status"]] == by_json["status"]
    assert answer["active_limits"].shape == (COUNT, 7)
    assert len(answer["advice"]) == COUNT
    assert str(answer["resolved.engine"]) == by_json["resolved"]["engine"]
    assert answer["coordinate_names"].tolist() == by_json["coordinate_names"]


@pytest.mark.parametrize("compress", [np.savez, np.savez_compressed])
def test_npz_holds_targets_of_several_links(client, compress):
    robot = load_robot("dual_panda")
    links = ["left_panda_hand", "right_panda_hand"]
    reached = robot.forward_kinematics(robot.random_free_joint_q(np.random.default_rng(2), 3), links=links)
    stream = io.BytesIO()
    compress(stream, positions=reached.positions.astype(np.float32), initial_joint_q=np.zeros((3, 14)))
    query = "?" + "&".join(f"link={link}" for link in links)
    reply = client.post("/v1/robots/dual_panda/solve" + query, content=stream.getvalue(), headers={"Content-Type": NPZ})
    answer = np.load(io.BytesIO(reply.content))
    assert answer["success"].all()
    assert np.isnan(answer["orientation_error_rad"]).all()
    assert answer["targets.1.position_error_m"].shape == (3,)
    assert str(answer["targets.1.link"]) == links[1]


@pytest.mark.parametrize("kind", [JSON, MSGPACK, NPZ])
def test_solutions_come_when_asked_for(client, poses, kind):
    target = {"link": "panda_hand", "positions": poses[0][:2].tolist(), "orientations_xyzw": poses[1][:2].tolist()}
    body = {"targets": [target], "options": {"solutions": 4}, "include": ["solutions"]}
    reply = post(client, json.dumps(body).encode(), JSON, kind)
    if kind == JSON:
        answer = {name: reply.json()[name] for name in ("solutions", "solution_count", "joint_q")}
        columns = {name: np.array(column, dtype=float) for name, column in answer.items()}
    elif kind == MSGPACK:
        columns = unpacked(reply.content)
    else:
        columns = np.load(io.BytesIO(reply.content))
    solutions, count = columns["solutions"], columns["solution_count"]
    assert solutions.shape == (2, 4, 7)
    assert (count >= 2).all()
    assert (solutions[:, 0] == columns["joint_q"]).all()
    assert (np.isnan(solutions).all(axis=2).sum(axis=1) == 4 - count).all()


def test_the_answer_is_its_own_only_solution(client, poses):
    target = {"link": "panda_hand", "positions": [poses[0][0].tolist(), [9, 0, 0]]}
    answer = post(client, json.dumps({"targets": [target], "include": ["solutions"]}).encode(), JSON).json()
    assert answer["solution_count"] == [1, 0]
    assert answer["solutions"] == [[answer["joint_q"][0]], [[None] * 7]]


def test_an_archive_may_have_the_start_of_one_problem_as_its_row_alone(client, poses):
    row = np.full(7, 0.1)
    bodies = [archive(positions=poses[0][:1], initial_joint_q=start) for start in (row, row[None])]
    answers = [np.load(io.BytesIO(post(client, body, NPZ, query="?link=panda_hand").content)) for body in bodies]
    assert answers[0]["joint_q"].tolist() == answers[1]["joint_q"].tolist()


def test_double_precision_and_the_best_of_all_seeds_may_be_asked_for(client, poses):
    target = {"link": "panda_hand", "positions": poses[0].tolist(), "orientations_xyzw": poses[1].tolist()}
    options = {"precision": "float64", "best_of": "cost", "seeds": 4}
    answer = unpacked(
        post(client, json.dumps({"targets": [target], "options": options}).encode(), JSON, MSGPACK).content
    )
    assert answer["joint_q"].dtype == np.float64
    assert answer["position_error_m"][answer["success"]].max() < 1e-7


# ---------------------------------------------------------------------- bodies that no client should send
GOOD = {"link": "panda_hand", "positions": packed([[0.4, 0.1, 0.5]])}
P = "/targets/0/positions"
COLUMNS = [
    ({"dtype": "float32", "shape": [1, 3], "data": b"1234"}, "wrong_shape", f"{P}/data"),
    ({"dtype": "float16", "shape": [1, 3], "data": b"123456"}, "wrong_type", f"{P}/dtype"),
    ({"dtype": "object", "shape": [1, 3], "data": b"12345678" * 3}, "wrong_type", f"{P}/dtype"),
    ({"dtype": ["float32"], "shape": [1, 3], "data": b""}, "wrong_type", f"{P}/dtype"),
    ({"dtype": "float32", "shape": 3, "data": b""}, "wrong_type", f"{P}/shape"),
    ({"dtype": "float32", "shape": [-1, 3], "data": b""}, "wrong_type", f"{P}/shape"),
    ({"dtype": "float32", "shape": [True, 3], "data": b"1234" * 3}, "wrong_type", f"{P}/shape"),
    ({"dtype": "float32", "shape": [1] * 40, "data": b"1234"}, "wrong_type", f"{P}/shape"),
    ({"dtype": "float32", "shape": [2**62, 2**62], "data": b""}, "wrong_shape", f"{P}/data"),
    ({"dtype": "float32", "shape": [0, 2**63], "data": b""}, "out_of_range", f"{P}/shape"),
    ({"dtype": "float32", "shape": [2**64 - 1, 0], "data": b""}, "out_of_range", f"{P}/shape"),
    ({"dtype": "float32", "shape": [0, 2**62, 2**62], "data": b""}, "out_of_range", f"{P}/shape"),
    ({"dtype": "float32", "shape": [0, 100_001], "data": b""}, "out_of_range", f"{P}/shape"),
    ({"dtype": "float32", "shape": [0, 0], "data": b""}, "wrong_shape", P),
    ({"dtype": "float32", "shape": [1, 3], "data": [1, 2, 3]}, "wrong_type", f"{P}/data"),
    ({"dtype": "float32", "shape": [0, 3], "data": b""}, "empty_batch", P),
    ({"dtype": "float32", "shape": [3], "data": b"1234" * 3}, "wrong_shape", P),
    ({"dtype": "float32", "shape": [1, 4], "data": b"\0" * 16}, "wrong_shape", P),
    ({"dtype": "float32", "shape": [1, 3]}, "wrong_type", P),
    (packed([[0, 0, 0], [0, np.nan, 0]], "float32"), "not_finite", f"{P}/1/1"),
    (packed([[0, 0, np.inf]]), "not_finite", f"{P}/0/2"),
    (packed([[0, -2e6, 0]], "float32"), "out_of_range", f"{P}/0/1"),
    ([[0.4, float("nan"), 0.5]], "not_finite", f"{P}/0/1"),
    (b"0.4", "wrong_type", P),
]


@pytest.mark.parametrize(("column", "code", "pointer"), COLUMNS)
def test_a_bad_packed_column_is_422_with_a_pointer_to_it(client, column, code, pointer):
    reply = post(client, msgpack.packb({"targets": [{"link": "panda_hand", "positions": column}]}), MSGPACK)
    assert reply.status_code == 422, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    assert (reply.json()["errors"][0]["code"], reply.json()["errors"][0]["pointer"]) == (code, pointer)


def test_too_many_packed_rows_are_413(client):
    column = packed(np.zeros((100_001, 3)), "float32")
    reply = post(client, msgpack.packb({"targets": [{"link": "panda_hand", "positions": column}]}), MSGPACK)
    assert (reply.status_code, reply.json()["code"]) == (413, "too_many_problems")


def test_a_number_that_is_not_finite_among_the_options_is_422(client):
    body = {"targets": [GOOD], "options": {"position_tolerance_m": float("nan")}}
    reply = post(client, msgpack.packb(body), MSGPACK)
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (422, "/options/position_tolerance_m")


def test_a_packed_column_where_none_belongs_is_422(client):
    reply = post(client, msgpack.packb({"targets": [GOOD], "options": packed([1.0])}), MSGPACK)
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (422, "/options")


def nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


MALFORMED = [
    ("empty", b"", 400),
    ("cut off", msgpack.packb({"targets": [GOOD]})[:-3], 400),
    ("two documents", msgpack.packb({}) * 2, 400),
    ("a byte that is not used", b"\xc1", 400),
    ("not UTF-8", b"\x81\xa1\xff\xc0", 400),
    ("a key that is no text", msgpack.packb({1: 2}), 400),
    ("an extension", msgpack.packb({"targets": msgpack.ExtType(5, b"x" * 8)}), 400),
    ("a point in time", msgpack.packb({"targets": msgpack.Timestamp(1)}), 400),
    ("nested too deep", nested(100_000), 400),
    ("nested", nested(400), 422),
    ("a length that is not there", b"\xdd\xff\xff\xff\xff", 400),
    ("bytes that are not there", b"\xc6\xff\xff\xff\xff", 400),
    ("a key that is bytes", msgpack.packb({b"targets": []}), 400),
    ("a list", msgpack.packb([]), 422),
    ("a number", msgpack.packb(1), 422),
    ("many lists", b"\xdd" + TOO_MANY.to_bytes(4, "big") + b"\x90" * TOO_MANY, 413),
    ("many maps", b"\xdd" + TOO_MANY.to_bytes(4, "big") + b"\x80" * TOO_MANY, 413),
]


@pytest.mark.parametrize(("content", "status"), [row[1:] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_bad_msgpack_is_refused(client, content, status):
    reply = post(client, content, MSGPACK)
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    assert status != 400 or reply.json()["code"] == "malformed_msgpack"


def zipped(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as written:
        for name, data in members:
            written.writestr(name, data)
    return stream.getvalue()


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def with_header(text: str, data: bytes = b"") -> bytes:
    header = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


ROWS = np.zeros((4, 3))
SHAPE = "{'descr': '<f4', 'fortran_order': False, 'shape': %s}"
ARCHIVES = [
    ("objects", archive(positions=np.array([["x", None, 1]], dtype=object)), 422, "wrong_type"),
    ("text", archive(positions=np.array([["x", "y", "z"]])), 422, "wrong_type"),
    ("integers", archive(positions=np.zeros((4, 3), int)), 422, "wrong_type"),
    ("big-endian", archive(positions=ROWS.astype(">f8")), 422, "wrong_type"),
    ("half precision", archive(positions=ROWS.astype(np.float16)), 422, "wrong_type"),
    ("records", archive(positions=np.zeros(4, [("x", "<f4")])), 422, "wrong_type"),
    ("Fortran order", archive(positions=np.asfortranarray(ROWS)), 422, "wrong_type"),
    ("another name", archive(positions=ROWS, weights=ROWS), 422, "unknown_field"),
    ("a scalar", archive(positions=np.float64(1.0)), 422, "wrong_shape"),
    ("no rows", archive(positions=np.zeros((0, 3))), 422, "empty_batch"),
    ("NaN", archive(positions=np.full((4, 3), np.nan)), 422, "not_finite"),
    ("too many axes", archive(positions=np.zeros((4, 1, 3, 1))), 422, "wrong_shape"),
    ("nothing", archive(), 422, "missing_field"),
    ("empty body", b"", 400, "malformed_npz"),
    ("no archive", b"\0" * 500, 400, "malformed_npz"),
    ("cut off", archive(positions=ROWS)[:-10], 400, "malformed_npz"),
    ("bytes changed", archive(positions=ROWS).replace(b"\0" * 40, b"\1" * 40), 400, "malformed_npz"),
    ("no array", zipped([("positions.npy", b"0123456789")]), 400, "malformed_npz"),
    ("no npy", zipped([("positions.txt", npy(ROWS))]), 400, "malformed_npz"),
    ("another method", zipped([("positions.npy", npy(ROWS))], zipfile.ZIP_BZIP2), 400, "malformed_npz"),
    ("members", zipped([(f"{k}.npy", b"") for k in range(MEMBERS_MOST + 1)]), 400, "malformed_npz"),
    ("many members", zipped([(f"{k}.npy", b"") for k in range(1000)]), 413, "body_too_large"),
    ("a bomb", zipped([("positions.npy", bytes(40_000_000))], zipfile.ZIP_DEFLATED), 413, "body_too_large"),
    ("a huge shape", zipped([("positions.npy", with_header(SHAPE % "(10**9, 3)"))]), 400, "malformed_npz"),
    ("huge numbers", zipped([("positions.npy", with_header(SHAPE % "(999999999999, 3)"))]), 400, "malformed_npz"),
    ("a negative shape", zipped([("positions.npy", with_header(SHAPE % "(-1, -3)", bytes(12)))]), 400, "malformed_npz"),
    ("a long header", zipped([("positions.npy", with_header(" " * 5000))]), 400, "malformed_npz"),
    ("half a header", zipped([("positions.npy", with_header("{'descr': ("))]), 400, "malformed_npz"),
    ("open quotes", zipped([("positions.npy", with_header('"""'))]), 400, "malformed_npz"),
    ("many brackets", zipped([("positions.npy", with_header(SHAPE % ("(" * 300)))]), 400, "malformed_npz"),
    (
        "a shape of truths",
        zipped([("positions.npy", with_header(SHAPE % "(True, 3)", bytes(12)))]),
        400,
        "malformed_npz",
    ),
    ("no rows of many", zipped([("positions.npy", with_header(SHAPE % "(0, 2**63)"))]), 400, "malformed_npz"),
    ("a later version", zipped([("positions.npy", b"\x93NUMPY\x03\x00" + npy(ROWS)[8:])]), 400, "malformed_npz"),
]


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
@pytest.mark.parametrize(("content", "status", "code"), [a[1:] for a in ARCHIVES], ids=[a[0] for a in ARCHIVES])
def test_a_bad_archive_is_refused(client, content, status, code):
    reply = post(client, content, NPZ, query="?link=panda_hand")
    assert reply.status_code == status, reply.text
    assert reply.json()["code"] == code
    assert reply.headers["content-type"] == "application/problem+json"


def test_two_members_of_one_name_are_refused(client):
    with pytest.warns(UserWarning, match="Duplicate name"):
        content = zipped([("positions.npy", npy(ROWS))] * 2)
    assert post(client, content, NPZ, query="?link=panda_hand").json()["code"] == "malformed_npz"


QUERIES = [
    ("?link=panda_hand&sedes=3", "unknown_field", "/options/sedes"),
    ("?link=panda_hand&seeds=many", "wrong_type", "/options/seeds"),
    ("?link=panda_hand&seeds=0", "out_of_range", "/options/seeds"),
    ("?link=panda_hand&seeds=1&seeds=2", "invalid_value", "/options/seeds"),
    ("?link=panda_hand&best_of=all", "unknown_option", "/options/best_of"),
    ("?link=panda_hand&include=islets", "unknown_option", "/include/0"),
    ("?link=panda_hnd", "unknown_link", "/targets/0/link"),
    ("?link=5", "unknown_link", "/targets/0/link"),
    ("?link=null", "unknown_link", "/targets/0/link"),
    ("?link=panda_hand&include=5", "unknown_option", "/include/0"),
    ("", "wrong_shape", "/targets"),
    ("?link=panda_hand&link=panda_link4", "wrong_shape", "/positions"),
    ("?link=%ff", "out_of_range", ""),
    ("?" + "&".join("link=panda_hand" for _ in range(70)), "out_of_range", ""),
]


@pytest.mark.parametrize(("query", "code", "pointer"), QUERIES)
def test_a_bad_query_beside_an_archive_is_422(client, query, code, pointer):
    reply = post(client, archive(positions=ROWS), NPZ, query=query)
    assert reply.status_code == 422, reply.text
    assert (reply.json()["errors"][0]["code"], reply.json()["errors"][0]["pointer"]) == (code, pointer)


@pytest.mark.parametrize("name", ["7", "1.5", "true", "null"])
def test_a_link_may_have_a_name_that_reads_as_a_number(name):
    fields = NpzCodec().decode(archive(positions=ROWS), f"link={name}&seeds=7", 10_000)
    assert list(fields.query) == [("link", name), ("seeds", 7)]


def test_islands_do_not_fit_into_an_archive(client):
    body = {"targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]]}], "include": ["islands"]}
    reply = post(client, json.dumps(body).encode(), JSON, NPZ)
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (422, "/include")
    assert unpacked(post(client, json.dumps(body).encode(), JSON, MSGPACK).content)["islands"][0][0]["success"] is True
