"""Robots put, replaced and deleted over HTTP, by key only, and forward kinematics of any robot."""

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor

import msgpack
import numpy as np
import pytest

from ik_service import load_robot
from ik_service.robots import builtin_urdf, load_urdf
from ik_service.robots.readers.xml_reader import MAX_ATTRIBUTE_LENGTH, MAX_BYTES
from ik_service.service.catalog.robot_catalog import RobotCatalog, robot_store
from ik_service.service.schema.limits import MAX_LOOP_COUNT
from tests.bounded import PATIENCE_S
from tests.constraints import rounded
from tests.robots.readers.test_foreign_loops import named, pin
from tests.service.catalog.conftest import OTHER_KEY, READER_KEY, XML, problem
from tests.solver.test_loops import CLOSED, gaps

UR5E = builtin_urdf("ur5e")
GRIPPER = load_robot("panda_gripper")


@pytest.mark.evidence
def test_a_robot_is_put_solved_replaced_and_deleted(open_client, folder):
    url = "/v1/robots/my_arm"
    put = open_client.put(url, content=UR5E, headers=XML)
    assert put.status_code == 201, put.text
    assert put.headers["location"] == url
    assert put.json()["source"] == "uploaded"
    shown = open_client.get(url)
    assert shown.json() == put.json()
    assert shown.headers["etag"] == put.headers["etag"]
    assert [(r["name"], r["source"]) for r in open_client.get("/v1/robots").json()["robots"]] == [
        ("panda", "built_in"),
        ("my_arm", "uploaded"),
    ]
    poses = open_client.post(f"{url}/forward", json={"joint_q": [[0.1, -1, 1, 0.2, 0.3, 0.4]], "links": ["tool0"]})
    solved = open_client.post(f"{url}/solve", json={"targets": poses.json()["poses"]})
    assert solved.json()["success"] == [True], solved.text

    replaced = open_client.put(url, content=builtin_urdf("iiwa14"), headers={**XML, "If-Match": put.headers["etag"]})
    assert replaced.status_code == 200
    assert replaced.json()["content_hash"] != put.json()["content_hash"]
    assert (folder / "my_arm.urdf").read_bytes() == builtin_urdf("iiwa14")
    problem(open_client.put(url, content=UR5E, headers={**XML, "If-None-Match": "*"}), 412, "precondition_failed")
    assert open_client.delete(url).status_code == 204
    problem(open_client.get(url), 404, "unknown_robot")
    problem(open_client.delete(url), 404, "unknown_robot")
    assert list(folder.iterdir()) == []


def test_messages_name_the_robot_that_was_asked_for(open_client):
    assert b'<robot name="ur5e"' in UR5E
    url = "/v1/robots/my_arm"
    open_client.put(url, content=UR5E, headers=XML).raise_for_status()
    target = {"targets": [{"link": "tool9", "positions": [[0.4, 0.1, 0.5]]}]}
    damping = {"objectives": [{"type": "damping", "joints": ["elbow"]}], "problem_count": 1}
    for document, opening in (
        (target, "Link 'tool9' is not in robot 'my_arm'. Did you mean 'tool0'?"),
        (damping, "Joint 'elbow' is not in robot 'my_arm'. Joints: "),
    ):
        (fault,) = open_client.post(f"{url}/solve", json=document).json()["errors"]
        assert fault["detail"].startswith(opening)
    assert open_client.delete(url).status_code == 204


def test_what_of_a_put_file_is_not_read_is_told_and_its_accelerations_are(open_client, folder):
    text = UR5E.replace(b"<limit ", b'<limit acceleration="4" jerk="9" ')
    put = open_client.put("/v1/robots/my_arm", content=text, headers=XML)
    assert put.status_code == 201, put.text
    (warning,) = put.json()["warnings"]
    assert warning.endswith("attribute 'jerk' is not read, like 5 more of its kind.")
    assert [joint["dofs"][0]["acceleration_limit"] for joint in put.json()["joints"]] == [4.0] * 6
    plain = open_client.put("/v1/robots/my_arm", content=UR5E, headers=XML).json()
    assert plain["warnings"] == []
    assert [joint["dofs"][0]["acceleration_limit"] for joint in plain["joints"]] == [None] * 6
    assert open_client.delete("/v1/robots/my_arm").status_code == 204


FOUR_BAR = named(pin(rest='<child_origin xyz="0.5 0 0"/><parent_origin xyz="0.4 0 0"/><parent_axis xyz="0 0 1"/>'))
BROKEN = named(pin(type='type="rope"'), FOUR_BAR).encode()


@pytest.mark.evidence
def test_loops_of_a_robot_that_is_put_are_closed_and_what_is_none_is_named(open_client, folder):
    url = "/v1/robots/linkage"
    put = open_client.put(url, content=BROKEN, headers=XML)
    assert put.status_code == 201, put.text
    (loop,), (warning,) = put.json()["loops"], put.json()["warnings"]
    assert (loop["name"], loop["joint"], loop["link"], loop["reference_link"]) == (
        "pin",
        "revolute",
        "coupler",
        "rocker",
    )
    assert (loop["offset"]["position"], loop["pitch"], loop["distance"]) == ([0.5, 0, 0], None, None)
    assert loop["limits"] is None
    assert "joint is 'rope'" in warning
    assert open_client.get(url).json() == put.json()
    robot = load_urdf(BROKEN)
    for options in ({}, {"best_of": "nearest"}, {"precision": "float32"}):
        body = {"targets": [{"link": "crank", "positions": [[0, 0, 0]]}], "options": options}
        solved = open_client.post(f"{url}/solve", json=body)
        assert solved.status_code == 200, solved.text
        assert solved.json()["success"] == [True]
        assert gaps(robot, np.array(solved.json()["joint_q"])).max() <= CLOSED
    several = open_client.post(f"{url}/solve", json=body | {"options": {"solutions": 2}})
    problem(several, 422, "invalid_value")
    assert open_client.delete(url).status_code == 204


def test_a_mechanism_with_rounded_angles_is_put_and_closed_and_its_slack_is_told(open_client):
    url, text = "/v1/robots/linkage", rounded.pins(4)
    put = open_client.put(url, content=text.encode(), headers=XML)
    assert put.status_code == 201, put.text
    (warning,) = put.json()["warnings"]
    assert "Loop 'pin'" in warning
    assert "zx 1.4e-05" in warning
    robot = load_urdf(text)
    starts = robot.random_joint_q(np.random.default_rng(0), 5)
    closed = open_client.post(f"{url}/close", json={"joint_q": starts.tolist()})
    assert closed.json()["success"] == [True] * 5
    assert np.ptp(closed.json()["joint_q"], axis=0).max() > 1.0
    assert open_client.delete(url).status_code == 204


def test_loops_are_counted(open_client):
    loops = (pin(name=f'name="p{k}"', rest=f'<child_origin xyz="{k} 0 0"/>') for k in range(MAX_LOOP_COUNT + 1))
    put = open_client.put("/v1/robots/linkage", content=named("".join(loops)).encode(), headers=XML)
    assert len(put.json()["loops"]) == MAX_LOOP_COUNT
    assert put.json()["warnings"] == ["Loops after the first 32 are left out; more are not taken here."]
    assert open_client.delete("/v1/robots/linkage").status_code == 204


def test_constraints_are_ignored_where_that_is_asked_for_also_after_a_restart(open_client, folder):
    url = "/v1/robots/linkage"
    read = open_client.put(url, content=BROKEN, headers=XML)
    put = open_client.put(f"{url}?constraints=ignore", content=BROKEN, headers=XML)
    assert (put.status_code, put.json()["loops"], put.json()["warnings"]) == (200, [], [])
    assert put.headers["etag"] != read.headers["etag"]
    assert RobotCatalog({}, robot_store(folder)).entry("linkage").model.loops == ()
    text = open_client.get(f"{url}/urdf").content
    again = open_client.put(url, content=text, headers=XML)  # what is given back stands for the same robot
    assert (again.json(), again.headers["etag"]) == (put.json(), put.headers["etag"])
    both = open_client.put(f"{url}?constraints=ignore", content=text, headers=XML)
    assert both.headers["etag"] == put.headers["etag"]
    problem(open_client.put(f"{url}?constraints=skip", content=BROKEN, headers=XML), 422, "invalid_value")
    assert open_client.delete(url).status_code == 204


def test_what_is_said_of_a_body_is_about_a_robot(open_client):
    packed = open_client.put(
        "/v1/robots/packed", content=gzip.compress(UR5E), headers={**XML, "Content-Encoding": "gzip"}
    )
    problem(packed, 415, "unsupported_content_encoding")
    large = open_client.put("/v1/robots/large", content=bytes(MAX_BYTES + 1), headers=XML)
    problem(large, 413, "body_too_large")
    assert large.json()["detail"] == f"The body is larger than {MAX_BYTES} bytes. That is the most for a URDF."
    huge = open_client.put("/v1/robots/large", content=bytes(40_000_000), headers=XML)
    problem(huge, 413, "body_too_large")
    assert "problems" not in huge.json()["detail"]


def test_links_may_have_any_name_that_a_file_may_have(open_client):
    name = "l" * MAX_ATTRIBUTE_LENGTH
    assert open_client.put(
        "/v1/robots/long", content=UR5E.replace(b'"tool0"', f'"{name}"'.encode()), headers=XML
    ).is_success
    target = {"link": name, "positions": [[0.3, 0.2, 0.5]]}
    solved = open_client.post("/v1/robots/long/solve", json={"targets": [target]})
    assert solved.json()["success"] == [True], solved.text
    assert open_client.delete("/v1/robots/long").status_code == 204


def test_the_urdf_comes_back_as_a_file_and_never_as_a_page(open_client):
    text = UR5E.replace(b"</robot>", b'<script xmlns="http://www.w3.org/1999/xhtml">alert(1)</script></robot>')
    assert open_client.put("/v1/robots/script", content=text, headers=XML).status_code == 201
    for name, expected in (("script", text), ("panda", builtin_urdf("panda"))):
        reply = open_client.get(f"/v1/robots/{name}/urdf")
        assert reply.content == expected
        assert reply.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff"
    open_client.delete("/v1/robots/script")


@pytest.mark.parametrize(
    ("name", "content", "headers", "status", "code"),
    [
        ("panda", UR5E, XML, 409, "read_only_robot"),
        ("ur5e", UR5E, XML, 409, "read_only_robot"),
        ("A", UR5E, XML, 422, "invalid_robot_name"),
        ("..%2f..%2fx", UR5E, XML, 404, "not_found"),
        ("%2e%2e", UR5E, XML, 422, "invalid_robot_name"),
        ("x", UR5E, {"Content-Type": "application/json"}, 415, "unsupported_media_type"),
        ("x", UR5E, {}, 415, "unsupported_media_type"),
        ("x", b"<mujoco model='m'><worldbody/></mujoco>", XML, 415, "mjcf_refused"),
        ("x", b"<mujoco/>", XML, 415, "mjcf_refused"),
        ("x", b"<robot name='x'/>", XML, 422, "invalid_robot_file"),
        ("x", b"", XML, 422, "invalid_robot_file"),
        ("x", b"<!DOCTYPE r [<!ENTITY a 'b'>]><robot/>", XML, 422, "invalid_robot_file"),
        ("x", UR5E + b" " * 2_000_000, XML, 413, "body_too_large"),
        ("x", UR5E, {**XML, "If-Match": "*"}, 412, "precondition_failed"),
    ],
)
def test_what_cannot_be_put_is_refused_with_its_code(open_client, folder, name, content, headers, status, code):
    problem(open_client.put(f"/v1/robots/{name}", content=content, headers=headers), status, code)
    assert list(folder.iterdir()) == []


def test_a_full_catalog_is_a_conflict(open_client):
    for name in ("a", "b", "c"):
        assert open_client.put(f"/v1/robots/{name}", content=UR5E, headers=XML).status_code == 201
    problem(open_client.put("/v1/robots/d", content=UR5E, headers=XML), 409, "catalog_full")
    for name in ("a", "b", "c"):
        assert open_client.delete(f"/v1/robots/{name}").status_code == 204


def test_another_key_cannot_replace_or_delete_what_a_key_has_put(open_client):
    other = {**XML, "X-API-Key": OTHER_KEY}
    put = open_client.put("/v1/robots/mine", content=UR5E, headers=XML)
    assert put.status_code == 201
    problem(open_client.put("/v1/robots/mine", content=UR5E + b"\n", headers=other), 403, "key_not_allowed")
    problem(open_client.delete("/v1/robots/mine", headers=other), 403, "key_not_allowed")
    assert open_client.get("/v1/robots/mine", headers=other).headers["etag"] == put.headers["etag"]
    world = {"objects": {"box": {"shape": "box", "size": [1, 1, 1], "position": [5, 0, 0]}}}
    assert open_client.put("/v1/worlds/mine", json=world).status_code == 201
    problem(open_client.put("/v1/worlds/mine", json=world, headers={"X-API-Key": OTHER_KEY}), 403, "key_not_allowed")
    problem(open_client.delete("/v1/worlds/mine", headers=other), 403, "key_not_allowed")
    assert open_client.delete("/v1/worlds/mine").status_code == 204
    assert open_client.delete("/v1/robots/mine").status_code == 204


def test_a_solve_may_name_the_version_of_the_robot_that_it_is_for(open_client):
    put = open_client.put("/v1/robots/mine", content=UR5E, headers=XML)
    url, body = "/v1/robots/mine/solve", {"targets": [{"link": "tool0", "positions": [[0.3, 0.2, 0.5]]}]}
    for etag in (put.headers["etag"], f'"old", {put.headers["etag"]}', "*"):
        assert open_client.post(url, json=body, headers={"If-Match": etag}).status_code == 200
    assert open_client.put("/v1/robots/mine", content=UR5E + b"\n", headers=XML).status_code == 200
    problem(open_client.post(url, json=body, headers={"If-Match": put.headers["etag"]}), 412, "precondition_failed")
    assert open_client.post(url, json=body).status_code == 200
    assert open_client.delete("/v1/robots/mine").status_code == 204


def test_a_key_that_may_only_read_cannot_put_or_delete(open_client):
    reader = {**XML, "X-API-Key": READER_KEY}
    assert open_client.get("/v1/robots", headers=reader).status_code == 200
    problem(open_client.put("/v1/robots/x", content=UR5E, headers=reader), 403, "key_not_allowed")
    problem(open_client.delete("/v1/robots/x", headers=reader), 403, "key_not_allowed")
    problem(open_client.put("/v1/robots/x", content=UR5E, headers={**XML, "X-API-Key": "none"}), 401, "invalid_api_key")


def test_others_are_answered_while_a_robot_is_put(open_client, monkeypatch):
    catalog = open_client.app.state.service.catalog
    begun, answered, put = threading.Event(), threading.Event(), catalog.put

    def slow(*given):
        begun.set()
        assert answered.wait(PATIENCE_S)
        return put(*given)

    monkeypatch.setattr(catalog, "put", slow)
    with ThreadPoolExecutor(1) as pool:
        putting = pool.submit(open_client.put, "/v1/robots/slow", content=UR5E, headers=XML)
        assert begun.wait(PATIENCE_S)
        assert open_client.get("/health/live").status_code == 200
        answered.set()
        assert putting.result().status_code == 201
    assert open_client.delete("/v1/robots/slow").status_code == 204


def test_uploads_are_off_by_default(client):
    problem(client.put("/v1/robots/x", content=UR5E, headers=XML), 403, "uploads_disabled")
    problem(client.delete("/v1/robots/panda"), 403, "uploads_disabled")


def test_a_full_disk_is_507_and_tells_nothing_else(open_client, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "/srv/secret")

    monkeypatch.setattr(open_client.app.state.service.catalog._store, "write", full)
    reply = open_client.put("/v1/robots/x", content=UR5E, headers=XML)
    problem(reply, 507, "storage_full")
    assert "secret" not in reply.text
    problem(open_client.get("/v1/robots/x"), 404, "unknown_robot")


def test_forward_kinematics_is_that_of_the_model(client):
    joint_q = GRIPPER.random_joint_q(np.random.default_rng(0), 5)
    reply = client.post("/v1/robots/panda_gripper/forward", json={"joint_q": joint_q.tolist()})
    assert reply.status_code == 200, reply.text
    expected = GRIPPER.forward_kinematics(joint_q)
    assert [pose["link"] for pose in reply.json()["poses"]] == list(GRIPPER.link_names)
    for k, pose in enumerate(reply.json()["poses"]):
        np.testing.assert_array_equal(pose["positions"], expected.positions[:, k])
        np.testing.assert_array_equal(pose["orientations_xyzw"], expected.orientations_xyzw[:, k])


def test_forward_kinematics_speaks_messagepack(client):
    body = msgpack.packb({"joint_q": [[0.0] * 7], "links": ["panda_hand"]})
    reply = client.post("/v1/robots/panda/forward", content=body, headers={"Content-Type": "application/msgpack"})
    (pose,) = msgpack.unpackb(reply.content)["poses"]
    assert pose["positions"]["shape"] == [1, 3]
    found = np.frombuffer(pose["positions"]["data"], pose["positions"]["dtype"])
    expected = load_robot("panda").forward_kinematics(np.zeros(7), links=["panda_hand"]).positions[0, 0]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({}, "missing_field", "/joint_q"),
        ({"joint_q": [[0.0] * 6]}, "wrong_shape", "/joint_q/0"),
        ({"joint_q": []}, "empty_batch", "/joint_q"),
        ({"joint_q": [[0.0] * 6 + [None]]}, "wrong_type", "/joint_q/0/6"),
        ({"joint_q": [[0.0] * 7], "links": ["none"]}, "unknown_link", "/links/0"),
        ({"joint_q": [[0.0] * 7], "links": []}, "wrong_shape", "/links"),
        ({"joint_q": [[0.0] * 7], "link": "panda_hand"}, "unknown_field", "/link"),
        ({"joint_q": [[0.0] * 7], "links": ["panda_hand"] * 2}, "invalid_value", "/links/1"),
    ],
)
def test_bad_configurations_are_pointed_at(client, body, code, pointer):
    reply = client.post("/v1/robots/panda/forward", json=body)
    problem(reply, 422, code)
    assert reply.json()["errors"][0]["pointer"] == pointer


def test_so_many_poses_and_no_more(client):
    reply = client.post("/v1/robots/dual_panda/forward", json={"joint_q": [[0.0] * 14] * 60_000})
    problem(reply, 422, "out_of_range")
    assert "1000000 poses" in reply.json()["detail"]


def test_forward_kinematics_refuses_what_it_does_not_speak(client):
    url, body = "/v1/robots/panda/forward", {"joint_q": [[0.0] * 7]}
    npz = {"Content-Type": "application/x-npz"}
    problem(client.post(url, content=b"", headers=npz), 415, "unsupported_media_type")
    problem(client.post(url, json=body, headers={"Accept": "application/x-npz"}), 406, "not_acceptable")
    problem(client.post("/v1/robots/none/forward", json=body), 404, "unknown_robot")
    problem(client.post("/v1/robots/humanoid/forward", json={"joint_q": [[0.0] * 30]}), 422, "wrong_shape")


def test_a_viewer_finds_mimic_trees_and_a_home_configuration(client):
    body = client.get("/v1/robots/panda_gripper").json()
    follower = next(dof for joint in body["joints"] for dof in joint["dofs"] if dof["leader"] is not None)
    assert (follower["multiplier"], follower["offset"]) == (1.0, 0.0)
    assert body["home_joint_q"] == GRIPPER.mid_joint_q.tolist()
    arms = client.get("/v1/robots/dual_panda").json()
    assert arms["tree_count"] == 2
    assert {dof["tree"] for joint in arms["joints"] for dof in joint["dofs"]} == {0, 1}
