"""Robots put, replaced and deleted over HTTP, by key only, and forward kinematics of any robot."""

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pinocchio
import pytest

from ik_service import builtin_robot_names, load_robot
from ik_service.robots import builtin_urdf, load_urdf
from ik_service.robots.readers.xml_reader import MAX_ATTRIBUTE_LENGTH, MAX_BYTES
from ik_service.service.catalog.robot_catalog import RobotCatalog
from ik_service.service.schema.limits import MAX_LOOP_COUNT
from tests.bounded import PATIENCE_S
from tests.constraints import rounded
from tests.robots.readers.test_foreign_loops import named, pin
from tests.service.catalog.conftest import OTHER_KEY, READER_KEY, UR5E, XML, kept
from tests.service.messages import JSON, MSGPACK, NPZ, answered, post, problem

GRIPPER = load_robot("panda_gripper")
ARM = "/v1/robots/my_arm"
FORWARD = "/v1/robots/panda/forward"


def test_messages_name_the_robot_that_was_asked_for(open_client):
    assert b'<robot name="ur5e"' in UR5E
    target = {"targets": [{"link": "tool9", "positions": [[0.4, 0.1, 0.5]]}]}
    damping = {"objectives": [{"type": "damping", "joints": ["elbow"]}], "problem_count": 1}
    with kept(open_client, ARM):
        for document, opening in (
            (target, "Link 'tool9' is not in robot 'my_arm'. Did you mean 'tool0'?"),
            (damping, "Joint 'elbow' is not in robot 'my_arm'. Joints: "),
        ):
            (fault,) = post(open_client, f"{ARM}/solve", document).json()["errors"]
            assert fault["detail"].startswith(opening)


def test_what_of_a_put_file_is_not_read_is_told_and_its_accelerations_are(open_client):
    text = UR5E.replace(b"<limit ", b'<limit acceleration="4" jerk="9" ')
    with kept(open_client, ARM, text) as put:
        (warning,) = put.json()["warnings"]
        assert warning.endswith("attribute 'jerk' is not read, like 5 more of its kind.")
        assert [joint["dofs"][0]["acceleration_limit"] for joint in put.json()["joints"]] == [4.0] * 6
        plain = open_client.put(ARM, content=UR5E, headers=XML).json()
        assert plain["warnings"] == []
        assert [joint["dofs"][0]["acceleration_limit"] for joint in plain["joints"]] == [None] * 6


LINKAGE = "/v1/robots/linkage"
FOUR_BAR = named(pin(rest='<child_origin xyz="0.5 0 0"/><parent_origin xyz="0.4 0 0"/><parent_axis xyz="0 0 1"/>'))
BROKEN = named(pin(type='type="rope"'), FOUR_BAR).encode()


def test_a_mechanism_with_rounded_angles_is_put_and_closed_and_its_slack_is_told(open_client):
    text = rounded.pins(4)
    with kept(open_client, LINKAGE, text.encode()) as put:
        (warning,) = put.json()["warnings"]
        assert "Loop 'pin'" in warning
        assert "zx 1.4e-05" in warning
        starts = load_urdf(text).random_joint_q(np.random.default_rng(0), 5)
        closed = answered(open_client, f"{LINKAGE}/close", {"joint_q": starts})
        assert closed["success"] == [True] * 5
        assert np.ptp(closed["joint_q"], axis=0).max() > 1.0


def test_loops_are_counted(open_client):
    loops = (pin(name=f'name="p{k}"', rest=f'<child_origin xyz="{k} 0 0"/>') for k in range(MAX_LOOP_COUNT + 1))
    with kept(open_client, LINKAGE, named("".join(loops)).encode()) as put:
        assert len(put.json()["loops"]) == MAX_LOOP_COUNT
        assert put.json()["warnings"] == ["Loops after the first 32 are left out; more are not taken here."]


def test_constraints_are_ignored_where_that_is_asked_for_also_after_a_restart(open_client, folder):
    ignoring = f"{LINKAGE}?constraints=ignore"
    with kept(open_client, LINKAGE, BROKEN) as read:
        (loop,), (warning,) = read.json()["loops"], read.json()["warnings"]
        assert "joint is 'rope'" in warning
        names = [loop[name] for name in ("name", "joint", "link", "reference_link", "pitch", "distance", "limits")]
        assert names == ["pin", "revolute", "coupler", "rocker", *[None] * 3]
        assert loop["offset"]["position"] == [0.5, 0, 0]
        put = open_client.put(ignoring, content=BROKEN, headers=XML)
        assert (put.status_code, put.json()["loops"], put.json()["warnings"]) == (200, [], [])
        assert put.headers["etag"] != read.headers["etag"]
        assert RobotCatalog({}, folder).entry("linkage").model.loops == ()
        text = open_client.get(f"{LINKAGE}/urdf").content
        for url in (LINKAGE, ignoring):  # what is given back stands for the same robot
            again = open_client.put(url, content=text, headers=XML)
            assert (again.json(), again.headers["etag"]) == (put.json(), put.headers["etag"])
        wrong = open_client.put(f"{LINKAGE}?constraints=skip", content=BROKEN, headers=XML)
        problem(wrong, 422, "invalid_value")


def test_links_may_have_any_name_that_a_file_may_have(open_client):
    name = "l" * MAX_ATTRIBUTE_LENGTH
    target, text = {"link": name, "positions": [[0.3, 0.2, 0.5]]}, UR5E.replace(b'"tool0"', f'"{name}"'.encode())
    with kept(open_client, ARM, text) as put:
        assert (put.headers["location"], put.json()["source"]) == (ARM, "uploaded")
        assert open_client.get(ARM).json() == put.json()
        assert [robot["name"] for robot in open_client.get("/v1/robots").json()["robots"]] == ["panda", "my_arm"]
        assert answered(open_client, f"{ARM}/solve", {"targets": [target]})["success"] == [True]
        again = open_client.put(ARM, content=UR5E, headers={**XML, "If-None-Match": "*"})
        problem(again, 412, "precondition_failed")
    problem(open_client.delete(ARM), 404, "unknown_robot")


def test_the_urdf_comes_back_as_a_file_and_never_as_a_page(open_client):
    text = UR5E.replace(b"</robot>", b'<script xmlns="http://www.w3.org/1999/xhtml">alert(1)</script></robot>')
    with kept(open_client, ARM, text):
        for name, expected in (("my_arm", text), ("panda", builtin_urdf("panda"))):
            reply = open_client.get(f"/v1/robots/{name}/urdf")
            assert reply.content == expected
            assert reply.headers["content-disposition"].startswith("attachment")
            assert "sandbox" in reply.headers["content-security-policy"]
            assert reply.headers["x-content-type-options"] == "nosniff"


PACKED = {**XML, "Content-Encoding": "gzip"}


@pytest.mark.parametrize(
    ("name", "content", "headers", "status", "code"),
    [
        ("panda", UR5E, XML, 409, "read_only_robot"),
        ("ur5e", UR5E, XML, 409, "read_only_robot"),
        ("A", UR5E, XML, 422, "invalid_robot_name"),
        ("..%2f..%2fx", UR5E, XML, 404, "not_found"),
        ("%2e%2e", UR5E, XML, 422, "invalid_robot_name"),
        ("x", UR5E, {"Content-Type": JSON}, 415, "unsupported_media_type"),
        ("x", UR5E, {}, 415, "unsupported_media_type"),
        ("x", gzip.compress(UR5E, mtime=0), PACKED, 415, "unsupported_content_encoding"),
        ("x", b"<mujoco model='m'><worldbody/></mujoco>", XML, 415, "mjcf_refused"),
        ("x", b"<mujoco/>", XML, 415, "mjcf_refused"),
        ("x", b"<robot name='x'/>", XML, 422, "invalid_robot_file"),
        ("x", b"", XML, 422, "invalid_robot_file"),
        ("x", b"<!DOCTYPE r [<!ENTITY a 'b'>]><robot/>", XML, 422, "invalid_robot_file"),
        ("x", UR5E + b" " * 2_000_000, XML, 413, "body_too_large"),
        ("x", UR5E, {**XML, "If-Match": "*"}, 412, "precondition_failed"),
        ("x", UR5E, {**XML, "X-API-Key": READER_KEY}, 403, "key_not_allowed"),
        ("x", UR5E, {**XML, "X-API-Key": "none"}, 401, "invalid_api_key"),
    ],
)
def test_what_cannot_be_put_is_refused_with_its_code(open_client, folder, name, content, headers, status, code):
    problem(open_client.put(f"/v1/robots/{name}", content=content, headers=headers), status, code)
    assert list(folder.iterdir()) == []


def test_a_body_that_is_too_large_is_told_as_one_of_a_robot(open_client):
    large = open_client.put(ARM, content=bytes(MAX_BYTES + 1), headers=XML)
    document = problem(large, 413, "body_too_large")
    assert document["detail"] == f"The body is larger than {MAX_BYTES} bytes. That is the most for a URDF."
    huge = open_client.put(ARM, content=bytes(40_000_000), headers=XML)
    assert "problems" not in problem(huge, 413, "body_too_large")["detail"]


def test_a_full_catalog_is_a_conflict(open_client):
    with kept(open_client, "/v1/robots/a"), kept(open_client, "/v1/robots/b"), kept(open_client, "/v1/robots/c"):
        problem(open_client.put("/v1/robots/d", content=UR5E, headers=XML), 409, "catalog_full")


def test_another_key_cannot_replace_or_delete_what_a_key_has_put(open_client):
    world = {"objects": {"box": {"shape": "box", "size": [1, 1, 1], "position": [5, 0, 0]}}}
    bodies = {ARM: {"content": UR5E + b"\n"}, "/v1/worlds/mine": {"json": world}}
    with kept(open_client, "/v1/worlds/mine", world), kept(open_client, ARM) as put:
        for key in (OTHER_KEY, READER_KEY):
            for url, body in bodies.items():
                headers = {"X-API-Key": key, **(XML if "content" in body else {})}
                problem(open_client.put(url, headers=headers, **body), 403, "key_not_allowed")
                problem(open_client.delete(url, headers=headers), 403, "key_not_allowed")
                assert open_client.get(url, headers=headers).status_code == 200
        assert open_client.get(ARM).headers["etag"] == put.headers["etag"]


def test_a_solve_may_name_the_version_of_the_robot_that_it_is_for(open_client):
    url, body = f"{ARM}/solve", {"targets": [{"link": "tool0", "positions": [[0.3, 0.2, 0.5]]}]}
    with kept(open_client, ARM) as put:
        tag = put.headers["etag"]
        for etag in (tag, f'"old", {tag}', "*"):
            assert open_client.post(url, json=body, headers={"If-Match": etag}).status_code == 200
        assert open_client.put(ARM, content=UR5E + b"\n", headers=XML).status_code == 200
        problem(open_client.post(url, json=body, headers={"If-Match": tag}), 412, "precondition_failed")
        assert open_client.post(url, json=body).status_code == 200


def test_others_are_answered_while_a_robot_is_put(open_client, monkeypatch):
    catalog = open_client.app.state.service.catalog
    begun, answered, put = threading.Event(), threading.Event(), catalog.put

    def slow(*given):
        begun.set()
        assert answered.wait(PATIENCE_S)
        return put(*given)

    monkeypatch.setattr(catalog, "put", slow)
    with ThreadPoolExecutor(1) as pool:
        putting = pool.submit(open_client.put, ARM, content=UR5E, headers=XML)
        assert begun.wait(PATIENCE_S)
        assert open_client.get("/health/live").status_code == 200
        answered.set()
        assert putting.result().status_code == 201
    assert open_client.delete(ARM).status_code == 204


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
    expected = GRIPPER.forward_kinematics(joint_q)
    for kind in (JSON, MSGPACK):
        poses = answered(client, "/v1/robots/panda_gripper/forward", {"joint_q": joint_q}, kind)["poses"]
        assert [pose["link"] for pose in poses] == list(GRIPPER.link_names)
        for k, pose in enumerate(poses):
            np.testing.assert_array_equal(pose["positions"], expected.positions[:, k])
            np.testing.assert_array_equal(pose["orientations_xyzw"], expected.orientations_xyzw[:, k])


REST = {"joint_q": [[0.0] * 7]}


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({}, "missing_field", "/joint_q"),
        ({"joint_q": [[0.0] * 6]}, "wrong_shape", "/joint_q/0"),
        ({"joint_q": []}, "empty_batch", "/joint_q"),
        ({"joint_q": [[0.0] * 6 + [None]]}, "wrong_type", "/joint_q/0/6"),
        ({**REST, "links": ["none"]}, "unknown_link", "/links/0"),
        ({**REST, "links": []}, "wrong_shape", "/links"),
        ({**REST, "link": "panda_hand"}, "unknown_field", "/link"),
        ({**REST, "links": ["panda_hand"] * 2}, "invalid_value", "/links/1"),
    ],
)
def test_bad_configurations_are_pointed_at(client, body, code, pointer):
    problem(post(client, FORWARD, body), 422, code, pointer)


def test_so_many_poses_and_no_more(client):
    reply = client.post("/v1/robots/dual_panda/forward", json={"joint_q": [[0.0] * 14] * 60_000})
    assert "1000000 poses" in problem(reply, 422, "out_of_range")["detail"]


def test_forward_kinematics_refuses_what_it_does_not_speak(client):
    problem(post(client, FORWARD, b"", NPZ), 415, "unsupported_media_type")
    problem(post(client, FORWARD, REST, JSON, NPZ), 406, "not_acceptable")
    problem(post(client, "/v1/robots/none/forward", REST), 404, "unknown_robot")
    problem(post(client, "/v1/robots/humanoid/forward", {"joint_q": [[0.0] * 30]}), 422, "wrong_shape")


def test_the_list_names_every_builtin_robot(client):
    robots = client.get("/v1/robots").json()["robots"]
    assert [robot["name"] for robot in robots] == list(builtin_robot_names())
    panda = next(robot for robot in robots if robot["name"] == "panda")
    assert panda["joint_coord_count"] == panda["active_dof_count"] == 7
    assert panda["leaf_links"] == ["panda_hand"]


@pytest.mark.parametrize("name", builtin_robot_names())
def test_a_robot_is_described_as_the_model_has_it(client, name):
    reply = client.get(f"/v1/robots/{name}")
    assert reply.status_code == 200, reply.text
    body, robot = reply.json(), load_robot(name)
    assert tuple(body["coordinate_names"]) == robot.coordinate_names
    assert (tuple(body["dof_names"]), body["content_hash"]) == (robot.dof_names, robot.content_hash)
    assert [joint["name"] for joint in body["joints"]] == list(robot.joint_names)
    assert [link["name"] for link in body["links"]] == list(robot.link_names)
    assert [dof["name"] for joint in body["joints"] for dof in joint["dofs"]] == list(robot.dof_names)
    assert sum(dof["active"] for joint in body["joints"] for dof in joint["dofs"]) >= robot.active_dof_count > 0
    dofs = [dof for joint in body["joints"] for dof in joint["dofs"]]
    lower = [-np.inf if dof["lower"] is None else dof["lower"] for dof in dofs]
    assert lower == pytest.approx(robot.joint_limit_lower)
    assert body["home_joint_q"] == robot.mid_joint_q.tolist()
    assert {dof["tree"] for dof in dofs} == set(range(body["tree_count"])) == set(range(robot.trees.ntree))
    followers = [(dof["name"], dof["leader"], dof["multiplier"], dof["offset"]) for dof in dofs if dof["leader"]]
    if name == "panda_gripper":
        assert followers == [("panda_finger_joint2", "panda_finger_joint1", 1.0, 0.0)]


def test_the_description_is_enough_to_compute_forward_kinematics(client):
    body, robot = client.get("/v1/robots/panda").json(), load_robot("panda")
    joint_q = robot.random_joint_q(np.random.default_rng(0), 1)[0]

    def placed(pose):
        return pinocchio.XYZQUATToSE3(np.array([*pose["position"], *pose["orientation_xyzw"]]))

    frames = {None: pinocchio.SE3.Identity()}
    for joint, q in zip(body["joints"], joint_q, strict=True):
        turn = pinocchio.SE3(pinocchio.exp3(q * np.array(joint["axis"])), np.zeros(3))
        frames[joint["name"]] = frames[joint["parent"]] * placed(joint["origin"]) * turn
    hand = next(link for link in body["links"] if link["name"] == "panda_hand")
    position = (frames[hand["joint"]] * placed(hand["pose"])).translation
    expected = robot.forward_kinematics(joint_q, links=["panda_hand"]).positions[0, 0]
    assert position == pytest.approx(expected, abs=1e-12)  # the same float64 arithmetic in another order


# ---------------------------------------------------------------------- RFC 9110, section 13
SHOWN = ["/v1/robots/panda", "/v1/robots/panda/urdf", "/v1/robots/my_arm", "/v1/robots/my_arm/urdf", "/v1/worlds/cell"]


@pytest.fixture
def shown(open_client):
    with kept(open_client, "/v1/robots/my_arm"), kept(open_client, "/v1/worlds/cell", {"objects": {}}):
        yield


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize("url", SHOWN)
def test_what_a_caller_has_already_is_not_sent_again(open_client, url, method):
    tag = open_client.get(url).headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        reply = open_client.request(method, url, headers={"If-None-Match": known})
        assert (reply.status_code, reply.content, reply.headers["etag"]) == (304, b"", tag), known
    for other in ('"other"', tag.strip('"'), ""):
        assert open_client.request(method, url, headers={"If-None-Match": other}).status_code == 200, other


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize("url", SHOWN)
def test_what_is_not_the_one_that_a_caller_wants_is_412(open_client, url):
    tag = open_client.get(url).headers["etag"]
    for wanted in (tag, f'"other", {tag}', "*"):
        assert open_client.get(url, headers={"If-Match": wanted}).status_code == 200, wanted
    for wanted in ('"other"', f"W/{tag}"):
        problem(open_client.get(url, headers={"If-Match": wanted}), 412, "precondition_failed")
    both = {"If-Match": '"other"', "If-None-Match": tag}
    problem(open_client.get(url, headers=both), 412, "precondition_failed")
    assert open_client.get(url, headers={"If-Match": tag, "If-None-Match": tag}).status_code == 304


def test_what_is_not_there_is_404_whatever_the_caller_has(open_client):
    problem(open_client.get("/v1/robots/other", headers={"If-None-Match": "*"}), 404, "unknown_robot")
    problem(open_client.get("/v1/worlds/other", headers={"If-Match": "*"}), 404, "unknown_world")
