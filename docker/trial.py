"""Tries an image: the container without rights, its root read-only; each line printed is a check or a figure."""

import contextlib
import http.client
import json
import pathlib
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import engines

HOST = "127.0.0.1"
START_S, ANSWER_S = 120.0, 60.0
BEYOND_IMPORTS_S = 2.0  # most that the first answer may take besides starting Python and importing
REPEATS = 5
KERNELS, ROBOTS = "/var/lib/ik-service/kernels", "/var/lib/ik-service/robots"
Question = tuple[str, dict[str, Any]]
"""A robot, and the body of a request."""
OBJECTS = (".o", ".cubin", ".ptx")
IMPORTS = "import warp, ik_service.cli.serve, ik_service.solver; warp.config.log_level = 30; warp.init(); "
IMPORTS += "import time; print('AT', time.monotonic())"  # of one clock with ours
WRITES = "id -u; for place in / /opt/ik-service /var/lib/ik-service; do touch $place/x && echo WROTE; done"
TOOLS = """
for tool in gcc cc clang make; do command -v $tool; done
ls -d /opt/ik-service/bin/pip* /opt/ik-service/lib/python3*/site-packages/setuptools 2>/dev/null
find / -xdev -path '*/.cache/*' -o -xdev -path '/var/lib/apt/lists/*_Packages*' -o -xdev -path '/source/*'
"""
FILES = "cd /opt/ik-service/kernels; find . -type f | sed 's/.*[.]//' | grep -v / | sort | uniq -c; du -sm ."
QUESTIONS = """
import json
from ik_service.cli.warmup_command import link_sets
from ik_service.robots import builtin_robot_names, load_robot
for name in builtin_robot_names():
    robot = load_robot(name)
    wide = [{"precision": "float64"}]
    wide += [] if robot.every_constraint else [{"solutions": 2}]  # a robot with constraints has one solution
    for links in link_sets(robot, ()):
        poses = robot.forward_kinematics(robot.mid_joint_q[None], list(links))
        places = zip(links, poses.positions[0].tolist(), strict=True)
        positions = [{"link": link, "positions": [place]} for link, place in places]
        turns = zip(positions, poses.orientations_xyzw[0].tolist(), strict=True)
        whole = [{**one, "orientations_xyzw": [turn]} for one, turn in turns]
        for targets, options in ((positions, {}), (whole, {}), *((whole, one) for one in wide)):
            print("ASK" + json.dumps([name, {"targets": targets, "options": options}]))
"""
OWN_ROBOT = """<robot name="own"><link name="a"/><link name="b"/><link name="c"/>
<joint name="j1" type="revolute"><parent link="a"/><child link="b"/><origin xyz="0 0 0.3"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
<joint name="j2" type="revolute"><parent link="b"/><child link="c"/><origin xyz="0.4 0 0"/><axis xyz="0 0 1"/>
<limit lower="-2" upper="2" effort="1" velocity="1"/></joint></robot>"""


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def check(what: str, passed: bool, told: object = "") -> None:
    """Print a check; end where it has failed."""
    say(f"{'ok  ' if passed else 'FAIL'} {what}{f': {told}' if told != '' else ''}")
    if not passed:
        sys.exit(1)


class Service:
    """A container that serves, on a free port of this machine.

    Args:
        engine: What starts it.
        image: The image.
        volumes: Folders here, by which path they have in the container.
        variables: Environment variables besides the image's.
    """

    def __init__(
        self, engine: engines.Engine, image: str, volumes: dict[pathlib.Path, str] | None = None, **variables: str
    ) -> None:
        with socket.create_server((HOST, 0)) as listener:
            self.port = listener.getsockname()[1]
        self.key = secrets.token_hex(16)
        given = {"IK_SERVICE_PORT": str(self.port), "IK_SERVICE_API_KEYS": f"trial:{self.key}", **variables}
        self.started = time.monotonic()
        self.running = engine.start(image, port=self.port, variables=given, volumes=volumes)

    def ask(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> tuple[int, str]:
        """Send a request, with the key or another or the empty one; return status and body, status 0 for no answer."""
        headers = {"X-API-Key": self.key if key is None else key} if key != "" else {}
        if body is not None:
            headers["Content-Type"] = "application/xml" if isinstance(body, str) else "application/json"
        connection = http.client.HTTPConnection(HOST, self.port, timeout=ANSWER_S)
        try:
            connection.request(method, path, body if isinstance(body, str | None) else json.dumps(body), headers)
            reply = connection.getresponse()
            return reply.status, reply.read().decode(errors="replace")
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def solve(self, robot: str, asked: dict[str, Any]) -> tuple[int, str]:
        """Solve what a body of a request asks for."""
        return self.ask("POST", f"/v1/robots/{robot}/solve", asked)

    def wait_until_ready(self) -> float:
        """Wait for the ready route; return the seconds since the start."""
        while self.ask("GET", "/health/ready", key="")[0] != 200:
            if self.running.process.poll() is not None or time.monotonic() - self.started > START_S:
                self.running.process.kill()
                check("the container becomes ready", False, self.running.finish()[1])
            time.sleep(0.01)
        return time.monotonic() - self.started


@contextlib.contextmanager
def serving(*arguments: Any, **named: Any) -> Iterator[Service]:
    """A service that is killed where something fails."""
    service = Service(*arguments, **named)
    try:
        yield service
    finally:
        if service.running.process.poll() is None:
            service.running.process.kill()
            service.running.process.wait()


def compiled(folder: pathlib.Path) -> int:
    """How many objects of kernels a folder holds itself, links to what was shipped left out."""
    return sum(path.suffix in OBJECTS and not path.is_symlink() for path in folder.rglob("*"))


def try_image(engine: engines.Engine, image: str, folder: pathlib.Path) -> None:
    """Try everything, and let go of what it took."""
    try:
        try_configuration(engine, image)
        questions = try_commands(engine, image)
        try_cold_start(engine, image, questions)
        try_volumes(engine, image, questions, folder)
    finally:
        engine.close()


def try_configuration(engine: engines.Engine, image: str) -> None:
    """What the image says of itself."""
    config = engine.config(image)
    check("the user is a number and not root", config["User"] == "10001:10001", config["User"])
    check("the entry point is in exec form", config["Entrypoint"] == ["ik-service"], config["Entrypoint"])
    check("the health check is the package's own", config["Healthcheck"]["Test"] == ["CMD", "ik-service", "health"])
    check("it is stopped by SIGTERM", config.get("StopSignal", "SIGTERM") == "SIGTERM")
    labels = {name.removeprefix("org.opencontainers.image."): text for name, text in config["Labels"].items()}
    check("labels", {"title", "licenses", "version", "revision"} <= set(labels), labels["version"])
    say(f"     size: {engine.size(image) / 1e6:.0f} MB")


def try_commands(engine: engines.Engine, image: str) -> list[Question]:
    """What single commands do in it; return the questions that the image has kernels for."""
    code, text = engine.start(image, "ik-service", "serve").finish()
    check("without API keys it does not start on 0.0.0.0", code == 2 and "no API keys" in text, text.strip()[-200:])
    _, text = engine.start(image, "sh", "-c", WRITES).finish()
    check("it is user 10001 and the root is read-only", text.startswith("10001") and "WROTE" not in text)
    _, text = engine.start(image, "sh", "-c", TOOLS).finish()
    left = [line for line in text.splitlines() if line.startswith("/")]
    check("no compiler, installer or package cache is left inside", left == [], " ".join(left))
    _, text = engine.start(image, "sh", "-c", FILES).finish()
    say("     files of kernels: " + ", ".join(" ".join(line.split()) for line in text.splitlines()) + " MB")
    _, text = engine.start(image, "python", "-c", QUESTIONS).finish()
    return read_questions(text)


def read_questions(text: str) -> list[Question]:
    """Return the questions that the program `QUESTIONS` has printed."""
    return [tuple(json.loads(line[3:])) for line in text.splitlines() if line.startswith("ASK")]


def whole_poses(questions: list[Question]) -> dict[str, dict[str, Any]]:
    """Return for each robot the question about poses of all leaf links together."""
    return {
        robot: asked
        for robot, asked in questions
        if not asked["options"] and "orientations_xyzw" in asked["targets"][0]
    }


def import_seconds(engine: engines.Engine, image: str) -> float:
    """Seconds from the start of a container until it has imported what serving needs."""
    started = time.monotonic()
    _, text = engine.start(image, "python", "-c", IMPORTS).finish()
    return float(text.partition("AT ")[2]) - started


def try_cold_start(engine: engines.Engine, image: str, questions: list[Question]) -> None:
    """Start it several times, nothing but the image at hand, and ask once; then ask for everything that is built in."""
    panda = whole_poses(questions)["panda"]
    imports, answers = [], []
    for turn in range(REPEATS):
        imports.append(import_seconds(engine, image))
        with serving(engine, image) as service:
            ready = service.wait_until_ready()
            status, text = service.solve("panda", panda)
            answers.append(time.monotonic() - service.started)
            told = f"{answers[-1]:.2f} s, ready at {ready:.2f} s"
            check("a cold start", status == 200 and json.loads(text)["success"] == [True], told)
            if turn == 0:
                for told, key in (("no key", ""), ("a wrong key", "x" * 32)):
                    check(f"{told} is 401", service.ask("GET", "/v1/robots", key=key)[0] == 401)
                code, said = engine.start(image, "ik-service", "health", f"http://{HOST}:{service.port}").finish()
                check("the health command says ready", code == 0, said.strip())
                try_built_in(service, questions)
            asked = time.monotonic()
            code, _ = service.running.end()
            check("SIGTERM ends it with exit code 0", code == 0, f"{time.monotonic() - asked:.2f} s")
    beyond = [answer - spent for answer, spent in zip(answers, imports, strict=True)]
    say(f"     container start to first answer: {median(answers):.2f} s; imports alone {median(imports):.2f} s")
    check(
        f"at most {BEYOND_IMPORTS_S:g} s beyond imports", median(beyond) <= BEYOND_IMPORTS_S, f"{median(beyond):.2f} s"
    )


def median(values: list[float]) -> float:
    """The value in the middle."""
    return sorted(values)[len(values) // 2]


def try_built_in(service: Service, questions: list[Question]) -> None:
    """Ask each question once."""
    spent = []
    for robot, asked in questions:
        started = time.monotonic()
        status, text = service.solve(robot, asked)
        what = "pose" if "orientations_xyzw" in asked["targets"][0] else "position"
        links = ", ".join(one["link"] for one in asked["targets"])
        name = f"{what} of {robot} {links} {asked['options'] or ''}"
        spent.append((time.monotonic() - started, name))
        if status != 200:
            check(name, False, text)
    check("first requests of each kind for built-in robots", bool(spent))
    slowest, name = max(spent)
    say(f"     {len(spent)}, the slowest in {1e3 * slowest:.0f} ms: {name}")


def try_volumes(engine: engines.Engine, image: str, questions: list[Question], folder: pathlib.Path) -> None:
    """Volumes for robots and for their kernels: what is shipped is found, what is missing is compiled once."""
    kernels, robots = folder / "kernels", folder / "robots"
    for path in (kernels, robots):
        path.mkdir()
        path.chmod(0o777)
    variables = {"IK_SERVICE_CATALOG_DIR": ROBOTS, "IK_SERVICE_UPLOADS_ENABLED": "true"}
    own, built_in = {"targets": [{"link": "c", "positions": [[0.4, 0.0, 0.3]]}]}, whole_poses(questions)
    with serving(engine, image, {robots: ROBOTS}, **variables) as service:
        service.wait_until_ready()
        check("a robot is put", service.ask("PUT", "/v1/robots/own", OWN_ROBOT)[0] in (200, 201))
        status, text = service.solve("own", own)
        check("without a volume for kernels it is refused", status >= 500, f"{status} {json.loads(text)['code']}")
        check("and the others are solved", service.solve("panda", built_in["panda"])[0] == 200)
        code, log = service.running.end()
        check("whose cause stands in the log", code == 0 and "kernel cache" in log)
    volumes, variables = {kernels: KERNELS, robots: ROBOTS}, {**variables, "WARP_CACHE_PATH": KERNELS}
    counts = []
    for turn in ("first", "second"):
        with serving(engine, image, volumes, **variables) as service:
            ready = service.wait_until_ready()
            statuses = {service.solve(robot, asked)[0] for robot, asked in built_in.items()}
            check("the built-in robots", statuses == {200})
            counts.append(compiled(kernels))
            started = time.monotonic()
            status, text = service.solve("own", own)
            told = f"{time.monotonic() - started:.2f} s, ready at {ready:.2f} s"
            check(f"the robot that was put, on the {turn} start", status == 200, told)
            counts.append(compiled(kernels))
            check("SIGTERM ends it with exit code 0", service.running.end()[0] == 0)
    check("kernels compiled for built-in robots: 0", counts[0] == 0)
    once = counts[1] > 0 and counts[1:] == [counts[1]] * 3
    check("kernels compiled for a robot that was put", once, f"{counts[1]}, and none on the next start")
