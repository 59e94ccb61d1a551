"""`ik-service solve ROBOT TARGETS`: files in, files out, judged by forward kinematics on the host."""

import csv
import io
import json
import zipfile

import numpy as np
import pytest

from ik_service import IKSolver, load_robot
from ik_service.solver.candidates import SOLVED

POSITION_TOLERANCE = 1e-3  # [m], the solver's default
HEADER = "x,y,z,qx,qy,qz,qw"
POINT = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]]}
LIMITED = ("solve", "panda", "{csv}", "-l", "panda_hand", "--joint-limits")
TARGETS = np.array([[0.4, 0.1, 0.5, 1, 0, 0, 0], [0.5, -0.2, 0.4, 1, 0, 0, 0], [9, 9, 9, 1, 0, 0, 0]])


def write_csv(path, header, rows):
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def targets_csv(tmp_path):
    return write_csv(tmp_path / "targets.csv", HEADER, TARGETS.tolist())


def solve(run, path, *flags, **expected):
    return run("solve", "panda", path, "--device", "cpu", *flags, **expected)


def rows_of(result):
    return list(csv.DictReader(io.StringIO(result.stdout)))


def write_json(path, targets, **fields):
    path.write_text(json.dumps({"targets": targets, **fields}))
    return path


def solved_json(run, path, *flags):
    output = path.with_name("out.json")
    solve(run, path, "-o", output, *flags)
    return json.loads(output.read_text())


def assert_first_two_reached(joint_q):
    reached = load_robot("panda").forward_kinematics(joint_q, links=["panda_hand"]).positions[:, 0]
    distance = np.linalg.norm(reached - TARGETS[:, :3], axis=1)
    assert (distance[:2] <= POSITION_TOLERANCE).all()
    assert distance[2] > 1.0


@pytest.mark.parametrize("suffix", ["", ".csv", ".npz", ".json"])
def test_the_suffix_chooses_the_format_of_results_and_csv_goes_to_standard_output(run, targets_csv, tmp_path, suffix):
    output = tmp_path / f"results{suffix}"
    result = solve(run, targets_csv, "-l", "panda_hand", *(("-o", output) if suffix else ()))
    assert "2 of 3 solved for panda_hand in " in result.stderr
    assert bool(result.stdout) != bool(suffix)
    if suffix == ".npz":
        with np.load(output, allow_pickle=False) as archive:
            assert (archive["status"].dtype, archive["status_names"][0]) == (np.uint8, "converged")
            joint_q, success = archive["joint_q"], archive["success"].tolist()
    elif suffix == ".json":
        document = json.loads(output.read_text())
        joint_q, success = document["joint_q"], document["success"]
    else:
        rows = list(csv.DictReader((result.stdout or output.read_text()).splitlines()))
        joint_q = [[float(row[name]) for name in load_robot("panda").coordinate_names] for row in rows]
        success = [row["success"] == "true" for row in rows]
        assert rows[0]["status"] == "converged"
    assert success == [True, True, False]
    assert_first_two_reached(joint_q)


def test_npz_and_json_targets_give_the_same_answer_as_csv(run, targets_csv, tmp_path):
    positions, orientations = TARGETS[:, :3], TARGETS[:, 3:]
    npz = tmp_path / "targets.npz"
    np.savez(npz, positions=positions.astype(np.float32), orientations_xyzw=orientations)
    target = {"link": "panda_hand", "positions": positions.tolist(), "orientations_xyzw": orientations.tolist()}
    body = write_json(tmp_path / "targets.json", [target])
    answers = [solve(run, path).stdout for path in (targets_csv, npz, body)]
    assert answers[0] == answers[2]
    assert answers[1].splitlines()[0] == answers[0].splitlines()[0]
    assert len(answers[1].splitlines()) == 4


def test_options_given_go_before_those_of_the_file(run, tmp_path):
    path = write_json(tmp_path / "targets.json", [POINT], options={"seeds": 4}, include=["islands"])
    for flags, seeds in (((), 4), (("--seeds", "9"), 9)):
        found = solved_json(run, path, *flags)
        assert found["resolved"]["seeds"] == seeds
        assert found["islands"][0][0]["rows"] == ["target panda_hand"]  # as the file asks


def test_the_random_seed_of_the_file_holds_unless_one_is_given(run, tmp_path):
    target = {"link": "panda_hand", "positions": [[0.3, -0.5, 0.2]], "orientations_xyzw": [[0.5, 0.5, 0.5, 0.5]]}

    def solutions(options, *flags):
        options = {"solutions": 4, "sampler": "gauss", "noise_std": 1.0, **options}
        path = write_json(tmp_path / "targets.json", [target], options=options, include=["solutions"])
        return solved_json(run, path, *flags)["solutions"]

    of_seven = solutions({"random_seed": 7})
    assert of_seven != solutions({})
    assert of_seven == solutions({}, "--seed", "7") == solutions({"random_seed": 3}, "--seed", "7")


BAD_FILES = [
    ("t.csv", "", "header"),
    ("t.csv", "x,y\n1,2\n", "header 'x,y'"),
    ("t.csv", "x,y,z,w\n1,2,3,4\n", "header"),
    ("t.csv", "x,y,z,x\n1,2,3,4\n", "header"),
    ("t.csv", "x,y,z\n", "no targets"),
    ("t.csv", "x,y,z\n1,2\n", "line 2"),
    ("t.csv", "x,y,z\n1,2,3\n1,two,3\n", "line 3, column y"),
    ("t.csv", "x,y,z\n1,nan,3\n", "line 2, column y"),
    ("t.csv", "x,y,z\n1,2,1e999\n", "line 2, column z"),
    ("t.csv", "x,y,z\n1,2,1_0\n", "line 2, column z: '1_0'"),
    ("t.csv", "x,y,z\n1,2,3\n,,\n", "line 3, column x"),
    ("t.csv", "qx,qy,qz,qw\n0,0,0,0\n", "length 0"),
    ("t.csv", "qx,qy,qz,qw\n0,0,0,1\n\n0,0,0,1.01\n", "line 4: The quaternion has length 1.01"),
    ("t.csv", b"x,y,z\n1,2,\xff\n", "UTF-8"),
    ("t.npz", "not an archive", "cannot be read as a plain array of numpy.savez"),
    ("t.json", "{", "JSON"),
    ("t.json", "{}", "targets"),
    ("t.json", '{"targets": [{"link": "panda_hand", "positions": [[0.4, 0.1]]}]}', "/targets/0/positions/0"),
    ("t.xlsx", "", "suffix"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES)
def test_a_bad_file_is_exit_code_2_and_one_clear_line(run, tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = run("solve", "panda", path, code=2)
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def zipped(name, data, method=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr(name, data)
    return stream.getvalue()


ROWS = npy(TARGETS[:, :3])
PLAIN, PACKED = zipped("positions.npy", ROWS), bytearray(zipped("positions.npy", ROWS, zipfile.ZIP_DEFLATED))
PACKED[43:47] = b"\xff" * 4  # behind the name of the member
HEAD = b"\x14\x00\x00\x00\x00\x00"  # version of the format, flags and method, in both heads of a member
BAD_ARCHIVES = {
    "half a header": zipped("positions.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': (     "),
    "a shape of truths": zipped("positions.npy", ROWS.replace(b"(3, 3)", b"(True,3)", 1)),
    "cut off numbers": zipped("positions.npy", ROWS[:-10]),
    "packed wrongly": bytes(PACKED),
    "encrypted": PLAIN.replace(HEAD, b"\x14\x00\x01\x00\x00\x00"),
    "a method that is not there": PLAIN.replace(HEAD, b"\x14\x00\x00\x00\x63\x00"),
    "one array": ROWS,
    "bytes": zipped("positions", b"0123456789"),
    "pickled": b"\x80\x04K\x01.",
}


@pytest.mark.parametrize("content", BAD_ARCHIVES.values(), ids=BAD_ARCHIVES)
def test_a_damaged_archive_is_exit_code_2(run, tmp_path, content):
    path = tmp_path / "targets.npz"
    path.write_bytes(content)
    result = run("solve", "panda", path, code=2)
    assert "Error: " in result.stderr
    assert "targets.npz" in result.stderr


def test_lines_of_blanks_are_passed_over(run, tmp_path):
    path = tmp_path / "targets.csv"
    path.write_text("x,y,z\n0.4,0.1,0.5\n   \n\n0.5,-0.2,0.4\n\t\n")
    said = solve(run, path).stderr
    assert "2 of 2 solved" in said
    assert "targets.csv' has 3 blank lines without an answer." in said


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"positions": np.zeros((2, 4))}, "[n, 3]"),
        ({"positions": np.zeros((0, 3))}, "no targets"),
        ({"orientations_xyzw": np.eye(4)[2:] * [[1.0], [2.0]]}, "orientations_xyzw/1: The quaternion has length 2"),
        ({"positions": np.full((2, 3), np.nan)}, "not finite"),
        ({"positions": np.array([["a", "b", "c"]])}, "positions"),
        ({"positions": np.array([[{}, {}, {}]], dtype=object)}, "column 'positions' cannot be read as a plain array"),
        ({"orientations_xyzw": np.zeros((2, 4))}, "length 0"),
        ({"positions": np.zeros((2, 3)), "orientations_xyzw": np.tile([1.0, 0, 0, 0], (3, 1))}, "different numbers"),
        ({"position": np.zeros((2, 3))}, "Allowed: positions"),
        ({"positions": np.zeros((2, 3)), "initial_joint_q": np.zeros((2, 6))}, "[n, 7]"),
    ],
)
def test_bad_arrays_are_named(run, tmp_path, arrays, message):
    path = tmp_path / "targets.npz"
    np.savez(path, **arrays)
    assert message in run("solve", "panda", path, code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("solve", "pandora", "{csv}"), "Robot 'pandora'"),
        (("solve", "panda", "{csv}", "--link", "tool1"), "Link 'tool1'"),
        (("solve", "panda", "{csv}", "-l", "panda_hand", "-l", "panda_link4"), "one link"),
        (("solve", "panda", "{csv}", "--seeds", "0"), "seeds is 0"),
        (("solve", "panda", "{csv}", "--position-tolerance", "-1"), "position_tolerance is -1"),
        (("solve", "panda", "{csv}", "--device", "tpu"), "device"),
        (("solve", "panda", "{csv}", "-o", "results.txt"), ".csv, .npz, .json"),
        (("solve", "panda", "{half}"), "group is float64 of shape [1]. Allowed: [1] whole numbers"),
        (("solve", "panda", "{group}", "--criterion", "best"), "criterion is 'best'. Allowed: 'first'"),
        (("solve", "{stone}", "{csv}"), "no leaf link"),
        ((*LIMITED, "panda_joint1"), "is not NAME=LOWER:UPPER, such as elbow=-1.5:1.5."),
        ((*LIMITED, "panda_joint1=0"), "is not NAME=LOWER:UPPER, such as elbow=-1.5:1.5."),
        ((*LIMITED, "elbow=0:1"), "'elbow' is not in robot 'panda'"),
        ((*LIMITED, "panda_joint1=1:0"), "not a lower and an upper limit"),
        (("solve", "panda", "{csv}", "-l", "panda_hand", "--approximate", "least"), "Option approximate is 'least'"),
        (("solve", "panda", "{csv}", "-o", "no/such/folder/results.csv"), "folder"),
        (("solve", "panda", "no.csv"), "no.csv"),
        (("solve", "no.urdf", "{csv}"), "no.urdf"),
        (("solve", "panda", "{csv}", "--random", "5"), "either"),
        (("solve", "panda", "{csv}", "--json"), "--json"),
        (("solve", "panda"), "either"),
        (("solve", "dual_panda", "{csv}"), "Give --link; leaf links: left_panda_hand, right_panda_hand."),
        (("solve", "dual_panda", "--random", "2"), "Give --link; leaf links: left_panda_hand, right_panda_hand."),
        (("solve", "panda", "--random", "0"), "--random"),
        (("solve", "panda", "--random", "-3"), "--random"),
        (("solve", "panda", "--random", "5", "-o", "x.csv"), "--output"),
        (("solve", "panda", "--random", "5", "--link", "tool1"), "Link 'tool1'"),
        (("robots", "pandora"), "Robot 'pandora'"),
        (("robots", "--tree"), "--tree"),
        (("frobnicate",), "frobnicate"),
    ],
)
def test_bad_arguments_are_exit_code_2_and_say_what_is_allowed(run, targets_csv, tmp_path, arguments, message):
    files = {"{csv}": targets_csv, "{stone}": tmp_path / "stone.urdf"}
    for name, group in (("group", 0), ("half", 0.5)):
        files[f"{{{name}}}"] = tmp_path / f"{name}.csv"
        files[f"{{{name}}}"].write_text(f"x,y,z,group\n0.4,0,0.5,{group}")
    files["{stone}"].write_text('<robot name="stone"><link name="rock"/></robot>')
    result = run(*(files.get(argument, argument) for argument in arguments), code=2)
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


def test_problems_that_fail_are_advised_on_and_a_static_link_is_named(run, tmp_path):
    targets = [
        {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]] * 3},
        {"link": "panda_link0", "positions": [[0, 0, 0], [0.1, 0, 0], [0.2, 0, 0]]},
    ]
    said = solve(run, write_json(tmp_path / "targets.json", targets)).stderr
    assert "1 of 3 solved" in said
    for problem in (1, 2):
        assert f"problem {problem}: stalled. Link 'panda_link0' is static (fixed to the world)" in said


def test_limits_of_the_command_are_kept(run, targets_csv, tmp_path):
    output = tmp_path / "results.npz"
    own = ("--joint-limits", "panda_joint1=-0.2:0.4", "--joint-limits", "panda_joint7=0:1")
    solve(run, targets_csv, "-l", "panda_hand", "-o", output, *own)
    with np.load(output, allow_pickle=False) as archive:
        joint_q, success = archive["joint_q"], archive["success"]
    assert success[0]
    for column, lower, upper in ((0, -0.2, 0.4), (6, 0.0, 1.0)):
        assert ((joint_q[:, column] >= lower) & (joint_q[:, column] <= upper)).all()
    problems = write_json(tmp_path / "problems.json", [POINT], joint_limits={"panda_joint1": [0.1, 0.2]})
    for flags, upper in (((), 0.2), (("--joint-limits", "panda_joint1=-0.2:0.15"), 0.15)):
        (row,) = rows_of(solve(run, problems, *flags))
        assert 0.1 <= float(row["panda_joint1"]) <= upper
    nothing = solve(run, problems, "--joint-limits", "panda_joint1=-0.2:-0.1", code=2)
    assert "leaves no value of 'panda_joint1'" in nothing.stderr


def test_limits_of_the_command_drop_none_of_the_file(run, tmp_path):
    start = [1.5, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7]
    target, stays = {**POINT, "orientations_xyzw": [[1, 0, 0, 0]]}, {"frozen": ["panda_joint1"], "max_change": 0.1}
    problems = write_json(tmp_path / "problems.json", [target], initial_joint_q=[start], **stays)
    for limits in ("panda_joint7=-2.8:2.8", "panda_joint7=0.65:0.75", "panda_joint1=-1:1"):
        (row,) = rows_of(solve(run, problems, "--joint-limits", limits, code=1))
        joint_q = np.array([float(row[f"panda_joint{k}"]) for k in range(1, 8)])
        assert row["status"] == "unreachable"
        assert joint_q[0] == 1.5
        assert np.abs(joint_q - start).max() <= 0.1 + 1e-6
        assert not limits.startswith("panda_joint7=0.65") or 0.65 <= joint_q[6] <= 0.75


def test_a_target_out_of_reach_gets_the_nearest_minimum_where_asked_for(run, targets_csv, tmp_path):
    output = tmp_path / "results.npz"
    solve(run, targets_csv, "-l", "panda_hand", "-o", output, "--approximate", "nearest")
    with np.load(output, allow_pickle=False) as archive:
        assert archive["seed_index"].tolist()[2] == 0


def test_a_body_with_groups_gets_the_best_candidate_of_each(run, tmp_path):
    start = [0, -0.785, 0, -2.356, 0, 1.571, 0.785]
    target = {"link": "panda_hand", "positions": TARGETS[:, :3].tolist()}
    asked = {"group": [0, 0, 2], "criterion": "nearest", "initial_joint_q": start}
    path = write_json(tmp_path / "candidates.json", [target], **asked)
    result = solve(run, path, "-o", tmp_path / "best.json")
    best = json.loads((tmp_path / "best.json").read_text())
    own = IKSolver(load_robot("panda"), ["panda_hand"], device="cpu").solve_any(
        TARGETS[:, :3], group=asked["group"], criterion="nearest", initial_joint_q=start
    )
    assert best["candidate"] == [int(own.candidate[0]), None, None]
    assert (best["value"][0], best["status"]) == (own.value[0], own.status_names)
    assert np.array(best["joint_q"][0], np.float32).tobytes() == own.joint_q[0].tobytes()
    assert "1 of 3 solved for panda_hand" in result.stderr


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_columns_of_candidates_ask_for_the_best_of_each_group(run, tmp_path, suffix):
    group, cost = [0, 0, 2], [0.5, 0.0, 0.0]
    targets, output = tmp_path / f"candidates.{suffix}", tmp_path / f"best.{suffix}"
    if suffix == "csv":
        rows = [",".join(map(str, [*row[:3], own, more])) for row, own, more in zip(TARGETS, group, cost, strict=True)]
        targets.write_text("\n".join(["x,y,z,group,cost", *rows]))
    else:
        np.savez(targets, positions=TARGETS[:, :3], group=group, cost=cost)
    solve(run, targets, "-l", "panda_hand", "-o", output, "--criterion", "limit_margin")
    solver = IKSolver(load_robot("panda"), ["panda_hand"], device="cpu")
    own = solver.solve_any(TARGETS[:, :3], group=group, cost=cost, criterion="limit_margin")
    if suffix == "csv":
        lines = list(csv.DictReader(output.read_text().splitlines()))
        assert [line["candidate"] for line in lines] == [str(one) for one in own.candidate]
        assert [line["status"] for line in lines] == own.status_names
        assert float(lines[0]["panda_joint1"]) == pytest.approx(own.joint_q[0, 0], rel=1e-6)
        assert lines[1]["value"] == lines[1]["panda_joint1"] == ""
        assert [int(line["solved"]) for line in lines] == own.counts[:, SOLVED].tolist()
    else:
        with np.load(output, allow_pickle=False) as archive:
            assert archive["joint_q"].tobytes() == own.joint_q.tobytes()
            assert archive["value"].tobytes() == own.value.tobytes()
            assert archive["candidate"].tolist() == own.candidate.tolist()
