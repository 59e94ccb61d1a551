"""The same problems in every codec: equal answers, and bodies that no client should send."""

import io
import zipfile
from typing import Any

import msgpack
import numpy as np
import pytest

from ik_service import load_robot
from ik_service.service.codecs.msgpack_codec import MSGPACK_CONTAINERS_MAX
from ik_service.service.codecs.npz_codec import MEMBERS_MOST, NpzCodec
from tests.service.messages import JSON, KINDS, MSGPACK, NPZ, answered, archive, packed, post, problem

TOO_MANY = MSGPACK_CONTAINERS_MAX + 1
URL = "/v1/robots/panda/solve"
OF_HAND = URL + "?link=panda_hand"
COUNT = 20
FLOAT32_STEP = 1e-5  # targets rounded to float32 move the answer about as much [rad]


@pytest.fixture(scope="module")
def poses(panda):
    reached = panda.forward_kinematics(panda.random_free_joint_q(np.random.default_rng(5), COUNT), links=["panda_hand"])
    return reached.positions[:, 0], reached.orientations_xyzw[:, 0]


def asked(positions, orientations_xyzw=None, *, options=None, **fields):
    columns = {} if orientations_xyzw is None else {"orientations_xyzw": orientations_xyzw}
    return {"targets": [{"link": "panda_hand", "positions": positions, **columns}], "options": options or {}, **fields}


SEEDS = {"seeds": 32}


@pytest.fixture(scope="module")
def by_json(client, poses):
    return answered(client, URL, asked(*poses, options=SEEDS))


def test_msgpack_brings_the_columns_of_the_json(client, poses, by_json):
    answer = answered(client, URL, asked(*map(packed, poses), options=SEEDS), MSGPACK)
    assert (set(answer), answer["joint_q"].dtype) == ({*by_json, "status_names"}, np.float32)
    assert answer["joint_q"].tolist() == np.array(by_json["joint_q"], np.float32).tolist()
    assert (answer["success"].dtype, answer["status"].dtype) == (bool, np.uint8)
    assert [answer["status_names"][code] for code in answer["status"]] == by_json["status"]
    assert answer["iterations"].tolist() == by_json["iterations"]
    assert answer["seed_index"].tolist() == by_json["seed_index"]
    for name in ("position_error_m", "orientation_error_rad", "cost"):
        assert answer[name].tolist() == pytest.approx(by_json[name]), name
    lists = asked(poses[0], packed(poses[1]), options=SEEDS)
    assert answered(client, URL, lists, MSGPACK, JSON)["joint_q"] == by_json["joint_q"]


def test_float32_columns_reach_the_solver_as_they_are(client, poses, by_json, monkeypatch):
    taken, pool = [], client.app.state.service.pool
    submit = pool.submit
    monkeypatch.setattr(pool, "submit", lambda *a, **k: (taken.append(a[1]), submit(*a, **k))[1])
    answer = answered(client, URL, asked(*(packed(one, "float32") for one in poses), options=SEEDS), MSGPACK)
    assert taken[0].batch.positions[0].dtype == np.float32
    assert answer["success"].all()
    near = np.abs(answer["joint_q"] - np.array(by_json["joint_q"])).max(axis=1) < FLOAT32_STEP
    assert near.mean() > 0.8  # a target rounded anew may find another of its solutions


def test_npz_brings_the_columns_of_the_json(client, poses, by_json):
    content = archive(positions=poses[0], orientations_xyzw=poses[1])
    answer = answered(client, OF_HAND + "&seeds=32&include=active_limits&include=advice", content, NPZ)
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
    answer = answered(client, "/v1/robots/dual_panda/solve" + query, stream.getvalue(), NPZ)
    assert answer["success"].all()
    assert np.isnan(answer["orientation_error_rad"]).all()
    assert answer["targets.1.position_error_m"].shape == (3,)
    assert str(answer["targets.1.link"]) == links[1]


@pytest.mark.parametrize("kind", KINDS)
def test_solutions_come_when_asked_for(client, poses, kind):
    body = asked(poses[0][:2], poses[1][:2], options={"solutions": 4}, include=["solutions"])
    answer = answered(client, URL, body, JSON, kind)
    columns = {name: np.array(answer[name], dtype=float) for name in ("solutions", "solution_count", "joint_q")}
    solutions, count = columns["solutions"], columns["solution_count"]
    assert solutions.shape == (2, 4, 7)
    assert (count >= 2).all()
    assert (solutions[:, 0] == columns["joint_q"]).all()
    assert (np.isnan(solutions).all(axis=2).sum(axis=1) == 4 - count).all()


def test_the_answer_is_its_own_only_solution(client, poses):
    answer = answered(client, URL, asked([poses[0][0], [9, 0, 0]], include=["solutions"]))
    assert answer["solution_count"] == [1, 0]
    assert answer["solutions"] == [[answer["joint_q"][0]], [[None] * 7]]


def test_an_archive_may_have_the_start_of_one_problem_as_its_row_alone(client, poses):
    row = np.full(7, 0.1)
    bodies = [archive(positions=poses[0][:1], initial_joint_q=start) for start in (row, row[None])]
    one, other = (answered(client, OF_HAND, body, NPZ)["joint_q"].tolist() for body in bodies)
    assert one == other


def test_double_precision_and_the_best_of_all_seeds_may_be_asked_for(client, poses):
    options = {"precision": "float64", "best_of": "cost", "seeds": 4}
    answer = answered(client, URL, asked(*poses, options=options), JSON, MSGPACK)
    assert answer["joint_q"].dtype == np.float64
    assert answer["position_error_m"][answer["success"]].max() < 1e-7


# ---------------------------------------------------------------------- bodies that no client should send


def column(shape: Any, data: Any = b"", dtype: Any = "float32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data": data}


COLUMNS = {
    # code, where the fault is in the column
    ("wrong_shape", "/data"): [column([1, 3], b"1234"), column([2**62, 2**62])],
    ("wrong_type", "/dtype"): [column([1, 3], b"12345678" * 3, dtype) for dtype in ("float16", "object", ["float32"])],
    ("wrong_type", "/shape"): [column(3), column([-1, 3]), column([True, 3], b"1234" * 3), column([1] * 40, b"1234")],
    ("out_of_range", "/shape"): [
        column(shape) for shape in ([0, 2**63], [2**64 - 1, 0], [0, 2**62, 2**62], [0, 100_001])
    ],
    ("wrong_shape", ""): [column([0, 0]), column([3], b"1234" * 3), column([1, 4], b"\0" * 16)],
    ("wrong_type", "/data"): [column([1, 3], [1, 2, 3])],
    ("empty_batch", ""): [column([0, 3])],
    ("wrong_type", ""): [{"dtype": "float32", "shape": [1, 3]}, b"0.4"],
    ("not_finite", "/1/1"): [packed([[0, 0, 0], [0, np.nan, 0]], "float32")],
    ("not_finite", "/0/2"): [packed([[0, 0, np.inf]])],
    ("out_of_range", "/0/1"): [packed([[0, -2e6, 0]], "float32")],
    ("not_finite", "/0/1"): [[[0.4, float("nan"), 0.5]]],
}


@pytest.mark.parametrize(("code", "place", "wrong"), [(*at, one) for at, several in COLUMNS.items() for one in several])
def test_a_bad_packed_column_is_422_with_a_pointer_to_it(client, code, place, wrong):
    problem(post(client, URL, asked(wrong), MSGPACK), 422, code, f"/targets/0/positions{place}")


def test_too_many_packed_rows_are_413(client):
    problem(post(client, URL, asked(packed(np.zeros((100_001, 3)), "float32")), MSGPACK), 413, "too_many_problems")


@pytest.mark.parametrize(
    ("options", "code", "pointer"),
    [
        ({"position_tolerance_m": float("nan")}, "not_finite", "/options/position_tolerance_m"),
        (packed([1.0]), "wrong_type", "/options"),
    ],
)
def test_what_is_no_option_is_422(client, options, code, pointer):
    problem(post(client, URL, asked(packed([[0.4, 0.1, 0.5]]), options=options), MSGPACK), 422, code, pointer)


def nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


MALFORMED = {
    "empty": (b"", 400),
    "cut off": (msgpack.packb({"targets": []})[:-1], 400),
    "two documents": (msgpack.packb({}) * 2, 400),
    "a byte that is not used": (b"\xc1", 400),
    "not UTF-8": (b"\x81\xa1\xff\xc0", 400),
    "a key that is no text": (msgpack.packb({1: 2}), 400),
    "an extension": (msgpack.packb({"targets": msgpack.ExtType(5, b"x" * 8)}), 400),
    "a point in time": (msgpack.packb({"targets": msgpack.Timestamp(1)}), 400),
    "nested too deep": (nested(100_000), 400),
    "nested": (nested(400), 422),
    "a length that is not there": (b"\xdd\xff\xff\xff\xff", 400),
    "bytes that are not there": (b"\xc6\xff\xff\xff\xff", 400),
    "a key that is bytes": (msgpack.packb({b"targets": []}), 400),
    "a list": (msgpack.packb([]), 422),
    "a number": (msgpack.packb(1), 422),
    "many lists": (b"\xdd" + TOO_MANY.to_bytes(4, "big") + b"\x90" * TOO_MANY, 413),
    "many maps": (b"\xdd" + TOO_MANY.to_bytes(4, "big") + b"\x80" * TOO_MANY, 413),
}


@pytest.mark.parametrize(("content", "status"), MALFORMED.values(), ids=MALFORMED)
def test_bad_msgpack_is_refused(client, content, status):
    codes = {400: "malformed_msgpack", 413: "body_too_large", 422: "wrong_type"}
    problem(post(client, URL, content, MSGPACK, JSON), status, codes[status])


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


def of_positions(data: bytes) -> bytes:
    return zipped([("positions.npy", data)])


ROWS = np.zeros((4, 3))
SHAPE = "{'descr': '<f4', 'fortran_order': False, 'shape': %s}"
ARCHIVES = {
    "objects": (archive(positions=np.array([["x", None, 1]], dtype=object)), "wrong_type"),
    "text": (archive(positions=np.array([["x", "y", "z"]])), "wrong_type"),
    "integers": (archive(positions=np.zeros((4, 3), int)), "wrong_type"),
    "big-endian": (archive(positions=ROWS.astype(">f8")), "wrong_type"),
    "half precision": (archive(positions=ROWS.astype(np.float16)), "wrong_type"),
    "records": (archive(positions=np.zeros(4, [("x", "<f4")])), "wrong_type"),
    "Fortran order": (archive(positions=np.asfortranarray(ROWS)), "wrong_type"),
    "another name": (archive(positions=ROWS, weights=ROWS), "unknown_field"),
    "a scalar": (archive(positions=np.float64(1.0)), "wrong_shape"),
    "no rows": (archive(positions=np.zeros((0, 3))), "empty_batch"),
    "NaN": (archive(positions=np.full((4, 3), np.nan)), "not_finite"),
    "too many axes": (archive(positions=np.zeros((4, 1, 3, 1))), "wrong_shape"),
    "nothing": (archive(), "missing_field"),
    "many members": (zipped([(f"{k}.npy", b"") for k in range(1000)]), "body_too_large"),
    "a bomb": (zipped([("positions.npy", bytes(40_000_000))], zipfile.ZIP_DEFLATED), "body_too_large"),
}
MALFORMED_ARCHIVES = {
    "empty body": b"",
    "no archive": b"\0" * 500,
    "cut off": archive(positions=ROWS)[:-10],
    "bytes changed": archive(positions=ROWS).replace(b"\0" * 40, b"\1" * 40),
    "no array": of_positions(b"0123456789"),
    "no npy": zipped([("positions.txt", npy(ROWS))]),
    "another method": zipped([("positions.npy", npy(ROWS))], zipfile.ZIP_BZIP2),
    "members": zipped([(f"{k}.npy", b"") for k in range(MEMBERS_MOST + 1)]),
    "a huge shape": of_positions(with_header(SHAPE % "(10**9, 3)")),
    "huge numbers": of_positions(with_header(SHAPE % "(999999999999, 3)")),
    "a negative shape": of_positions(with_header(SHAPE % "(-1, -3)", bytes(12))),
    "a long header": of_positions(with_header(" " * 5000)),
    "half a header": of_positions(with_header("{'descr': (")),
    "open quotes": of_positions(with_header('"""')),
    "many brackets": of_positions(with_header(SHAPE % ("(" * 300))),
    "a shape of truths": of_positions(with_header(SHAPE % "(True, 3)", bytes(12))),
    "no rows of many": of_positions(with_header(SHAPE % "(0, 2**63)")),
    "a later version": of_positions(b"\x93NUMPY\x03\x00" + npy(ROWS)[8:]),
}
ARCHIVES |= {name: (content, "malformed_npz") for name, content in MALFORMED_ARCHIVES.items()}
STATUS = {"malformed_npz": 400, "body_too_large": 413}


@pytest.mark.parametrize(("content", "code"), ARCHIVES.values(), ids=ARCHIVES)
def test_a_bad_archive_is_refused(client, content, code):
    problem(post(client, OF_HAND, content, NPZ, JSON), STATUS.get(code, 422), code)


def test_two_members_of_one_name_are_refused(client):
    with pytest.warns(UserWarning, match="Duplicate name"):
        content = zipped([("positions.npy", npy(ROWS))] * 2)
    problem(post(client, OF_HAND, content, NPZ), 400, "malformed_npz")


QUERIES = [
    # the query, code and place of the fault
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
    problem(post(client, URL + query, archive(positions=ROWS), NPZ), 422, code, pointer)


@pytest.mark.parametrize("name", ["7", "1.5", "true", "null"])
def test_a_link_may_have_a_name_that_reads_as_a_number(name):
    fields = NpzCodec().decode(archive(positions=ROWS), f"link={name}&seeds=7", 10_000)
    assert list(fields.query) == [("link", name), ("seeds", 7)]


def test_islands_do_not_fit_into_an_archive(client):
    body = asked([[0.4, 0.1, 0.5]], include=["islands"])
    reply = post(client, URL, body, JSON, NPZ)
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (422, "/include")
    assert answered(client, URL, body, JSON, MSGPACK)["islands"][0][0]["success"] is True
