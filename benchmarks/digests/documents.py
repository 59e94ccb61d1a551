"""Documents that requests over HTTP send: solves by what they show, and the other routes."""

from typing import Any

from benchmarks.digests.answers import HANDS, drawn
from benchmarks.problems.mechanisms import MECHANISMS
from ik_service import load_robot

PROBLEMS = 16
ALL = ["active_limits", "advice", "clearance", "constraints", "islands", "solutions"]
OBJECTS = {
    "table": {"shape": "box", "size": [1.0, 1.0, 0.1], "position": [0.5, 0.0, -0.1]},
    "ball": {"shape": "sphere", "radius": 0.15, "position": [0.4, 0.3, 0.5]},
    "floor": {"shape": "half_space", "normal": [0, 0, 1], "offset": -0.4},
}
"""Those of the world that the service keeps."""
TOOL = {"tool": {"link": "panda_hand", "spheres": [[0.0, 0.0, 0.15, 0.04]], "touches": ["panda_link7"]}}
KEPT = {"name": "cell"}

Body = tuple[str, dict[str, Any]]


def targets_of(robot: str, links: list[str]) -> list[dict[str, Any]]:
    """Return targets of random configurations, some of them out of reach."""
    given = drawn(load_robot(robot, collision="ignore"), links, PROBLEMS, random_seed=5)
    poses = {"positions": given.positions, "orientations_xyzw": given.orientations}
    columns = [{name: values[:, k].tolist() for name, values in poses.items()} for k in range(len(links))]
    return [{"link": link} | own for link, own in zip(links, columns, strict=True)]


def solves() -> dict[str, Body]:
    """Return robots and bodies of solves, by what they show."""
    one, two = (targets_of(robot, HANDS[robot]) for robot in HANDS)
    home, start = ([load_robot(name).mid_joint_q.tolist()] * PROBLEMS for name in HANDS)
    weights = [[1, 1, 1, 0, 0, 0] if k % 2 else [0, 0, 0, 1, 1, 1] for k in range(PROBLEMS)]
    coupled = [two[0], two[1] | {"reference_link": "left_panda_hand"}]
    posture = {"type": "posture", "joint_q_reference": home[0]}
    few = {"seeds": 4, "max_iterations": 20}
    found = {
        "plain": ("panda", {"targets": one}),
        "all": ("panda", {"targets": one, "options": few, "include": ALL}),
        "positions": ("panda", {"targets": [{key: one[0][key] for key in ("link", "positions")}]}),
        "solutions": ("panda", {"targets": one, "options": {"seeds": 16, "solutions": 3}, "include": ALL}),
        "float64": ("panda", {"targets": one, "options": {"precision": "float64"}, "include": ["solutions"]}),
        "collision off": ("panda", {"targets": one, "options": {"collision": "off"}}),
        "sensitivity": ("panda", {"targets": one, "options": {"sensitivity": "target"}}),
        "limits": ("panda", {"targets": one, "joint_limits": {"panda_joint1": [-0.5, 1.0]}, "include": ALL}),
        "frozen": ("panda", {"targets": one, "initial_joint_q": home, "frozen": ["panda_joint3"], "max_change": 1.5}),
        "two targets": ("dual_panda", {"targets": two, "initial_joint_q": start, "include": ALL}),
        "weights": ("dual_panda", {"targets": [two[0] | {"row_weights": weights}], "include": ALL}),
        "one island": ("dual_panda", {"targets": coupled, "options": few, "include": ["islands"]}),
        "objectives": ("panda", {"objectives": [posture], "problem_count": 2, "include": ["islands", "advice"]}),
        "priorities": ("panda", {"targets": one, "objectives": [posture | {"weight": 0.03, "priority": 1}]}),
        "world": ("panda", {"targets": one, "world": {"objects": OBJECTS}, "include": ALL}),
        "kept world": ("panda", {"targets": one, "world": KEPT, "include": ALL}),
        "objects away": ("panda", {"targets": one, "world": KEPT | {"disable": ["ball"]}, "include": ALL}),
        "attached": ("panda", {"targets": one, "world": KEPT | {"attached": TOOL}, "include": ALL}),
        "repair": ("panda", {"targets": one, "world": KEPT, "options": {"repair": True, "seeds": 2}}),
    }
    free = [name for name in ALL if name != "clearance"]  # they have no collision models
    for mechanism in MECHANISMS:
        target = targets_of(mechanism.name, [mechanism.link])[0] | {"row_weights": list(mechanism.axes)}
        if mechanism.axes[-1] == 0.0:
            del target["orientations_xyzw"]
        found[mechanism.name] = mechanism.name, {"targets": [target], "options": few, "include": free}
    return found


def posts() -> dict[str, Body]:
    """Return routes and bodies of other requests, and of requests that are refused."""
    found: dict[str, Body] = {}
    for robot in ("panda", "dual_panda", "stewart"):
        model = load_robot(robot, collision="ignore")
        joint_q = drawn(model, [model.link_names[-1]], PROBLEMS, random_seed=5).joint_q.tolist()
        found[f"forward, {robot}"] = f"/v1/robots/{robot}/forward", {"joint_q": joint_q}
        if robot != "stewart":
            route = f"/v1/robots/{robot}/check"
            found[f"check, {robot}"] = route, {"joint_q": joint_q}
            found[f"check in a world, {robot}"] = route, {"joint_q": joint_q, "world": KEPT}
    attached = {"joint_q": found["check, panda"][1]["joint_q"], "world": KEPT | {"attached": TOOL}}
    found["check with a tool, panda"] = "/v1/robots/panda/check", attached
    for mechanism in MECHANISMS:
        model = load_robot(mechanism.name)
        joint_q = drawn(model, [mechanism.link], PROBLEMS // 2, random_seed=5).joint_q.tolist()
        route = f"/v1/robots/{mechanism.name}/close"
        found[f"close, {mechanism.name}"] = route, {"joint_q": joint_q, "frozen": list(mechanism.drives[:1])}
        found[f"modes, {mechanism.name}"] = route, {"joint_q": joint_q, "solutions": 2}
    faults: dict[str, dict[str, Any]] = {
        "an unknown link": {"targets": [{"link": "nothing", "positions": [[0.0, 0.0, 0.0]]}]},
        "an unknown field": {"aims": []},
        "an unknown world": {"targets": targets_of("panda", HANDS["panda"]), "world": {"name": "nowhere"}},
        "a number that is none": {"targets": [{"link": "panda_hand", "positions": [[0.0, "x", 0.0]]}]},
    }
    return found | {f"refused, {name}": ("/v1/robots/panda/solve", body) for name, body in faults.items()}
