"""`ik-service islands`: trees without targets, islands with them, as text and as JSON."""

import json

import pytest

HANDS = ["left_panda_hand", "right_panda_hand"]
ARMS = [[f"{side}_panda_joint{k}" for k in range(1, 8)] for side in ("left", "right")]
TARGETS = [argument for hand in HANDS for argument in ("--target", hand)]


def report(run, *arguments):
    return json.loads(run("islands", *arguments, "--json").stdout)


def test_without_targets_the_trees_are_shown(run):
    shown = report(run, "dual_panda")
    assert shown["trees"] == ARMS
    assert shown["static_links"] == ["base", "left_panda_link0", "right_panda_link0"]
    text = run("islands", "dual_panda").stdout
    assert text.startswith("dual_panda: 2 kinematic trees\n")
    assert f"  tree 1: {', '.join(ARMS[1])}\n" in text


def test_two_arms_are_two_islands(run):
    shown = report(run, "dual_panda", *TARGETS)
    assert [island["joints"] for island in shown["islands"]] == ARMS
    assert [island["rows"] for island in shown["islands"]] == [[f"target {hand}"] for hand in HANDS]
    text = run("islands", "dual_panda", *TARGETS).stdout
    assert text.startswith("dual_panda: 2 islands\n")
    assert f"    joints: {', '.join(ARMS[0])}\n" in text


@pytest.mark.parametrize(
    ("arguments", "joints", "static_links"),
    [
        (("dual_panda", "-t", ":".join(HANDS)), ARMS[0] + ARMS[1], []),  # the reference couples the arms
        (("dual_panda", "-t", f"{HANDS[1]}:base"), ARMS[1], ["base"]),
    ],
)
def test_a_reference_link_couples_trees_or_is_static(run, arguments, joints, static_links):
    (island,) = report(run, *arguments)["islands"]
    assert (island["joints"], island["static_links"]) == (joints, static_links)


def test_what_moves_nothing_is_named(run):
    shown = report(run, "panda", "-t", "panda_hand", "--lock", "panda_joint1=0.5", "--lock", "panda_joint4=-1")
    assert shown["locked_joints"] == ["panda_joint1", "panda_joint4"]
    assert len(shown["islands"][0]["joints"]) == 5
    assert report(run, "panda", "--lock", "panda_joint1=0.5")["static_links"] == ["panda_link0", "panda_link1"]
    text = run("islands", "dual_panda", "-t", "base", "-t", HANDS[0]).stdout
    assert "in no island: target base. Link 'base' is static" in text


def test_links_whose_names_hold_colons_are_found(run, tmp_path):
    path = tmp_path / "colons.urdf"
    joint = '<parent link="a"/><child link="arm:tip"/><axis xyz="0 0 1"/>'
    path.write_text(
        f'<robot name="colons"><link name="a"/><link name="arm:tip"/><joint name="j" type="continuous">{joint}</joint>'
        "</robot>"
    )
    for target, static in (("arm:tip", []), ("arm:tip:a", ["a"]), ("a:arm:tip", ["a"])):
        (island,) = report(run, path, "-t", target)["islands"]
        assert island["static_links"] == static


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pandora",), "Robot 'pandora'"),
        (("panda", "-t", "tool1"), "Link 'tool1'"),
        (("panda", "-t", "panda_hand:tool1"), "Link 'tool1'"),
        (("panda", "--lock", "panda_joint1"), "JOINT=VALUE"),
        (("panda", "--lock", "panda_joint1=fast"), "JOINT=VALUE"),
        (("panda", "--lock", "panda_joint1=nan"), "finite"),
        (("panda", "--lock", "panda_joint1=9"), "limits [-2.8973, 2.8973]"),
        (("panda", "--lock", "panda_joint1=0", "--lock", "panda_joint1=1"), "twice"),
        (("panda", "--lock", "wrist=0"), "Joint 'wrist'"),
    ],
)
def test_bad_arguments_are_exit_code_2_and_say_what_is_allowed(run, arguments, message):
    result = run("islands", *arguments, code=2)
    assert message in result.stderr
    assert "Traceback" not in result.output
