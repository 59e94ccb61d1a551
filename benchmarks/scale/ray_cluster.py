"""The service on a Ray cluster of this machine, in processes of its own; for the tests too.

Ray runs in a program apart, so that its settings, threads and warnings stay out of the process that asks.
"""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

HERE = Path(__file__).parent
CONFIGURATION = HERE.parents[1] / "docker" / "ray" / "cpu.yaml"
KEY = "0123456789abcdef"
START_S = 500.0  # a busy machine that has compiled nothing; less than the time of a test
ANSWER_S = 60.0  # that a check of its health may take
STARTS = 3  # of a cluster: Ray gives a node 30 s to start, and nobody can give it more
LATE_NODE = "The current node timed out during startup"  # what it says then
PORTS = range(21000, 32000)  # below those that Linux hands out by itself
CORES = 4  # as far as Ray knows: two replicas, and what a test runs beside them


def free_port() -> int:
    """Return a port that is free, and that the system gives to nobody who asks for any: Ray binds it seconds later."""
    for port in random.sample(PORTS, len(PORTS)):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError(f"No port of {PORTS} is free.")


class LateNodeError(RuntimeError):
    """A node of Ray was not up in the time that Ray gives it."""


class RayCluster:
    """`docker/ray/cpu.yaml` on a cluster of this machine: replicas of one core each, behind a port of loopback."""

    def __init__(self, folder: Path, replicas: int, variables: Mapping[str, str]) -> None:
        self._folder, self._count = folder, replicas
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        configuration = yaml.safe_load(CONFIGURATION.read_text())
        configuration["http_options"] |= {"host": "127.0.0.1", "port": port}
        (deployment,) = configuration["applications"][0]["deployments"]
        del deployment["autoscaling_config"]
        deployment["num_replicas"] = replicas
        (folder / "serve.yaml").write_text(yaml.safe_dump(configuration))
        own = {name: value for name, value in os.environ.items() if not name.startswith(("IK_SERVICE_", "RAY_"))}
        settled = {
            "RAY_AUTH_MODE": "disabled",  # nobody but this machine can reach the cluster
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "ik_service.integrations.proxy_layer.layers",
            "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",  # a busy machine may need more than the usual 5
            "IK_SERVICE_API_KEYS": f"lab:{KEY}",
            "IK_SERVICE_LOG_FORMAT": "json",
        }
        self._log = (folder / "cluster.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, HERE / "ray_cluster_start.py", folder / "ray", str(CORES), folder / "serve.yaml"],
            env={**own, **settled, **variables},
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def wait_until_ready(self) -> None:
        """Wait until all replicas have solved and the proxy knows one."""
        deadline = time.monotonic() + START_S
        while len(self.ready_replicas()) < self._count or not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = (self._folder / "cluster.log").read_text()
                kind = LateNodeError if LATE_NODE in log else RuntimeError
                raise kind(f"The cluster did not become ready: {log}")
            time.sleep(0.1)

    def end(self) -> None:
        """End it and all that it has started, at once: nothing of it is to be kept."""
        family = descendants(self._process.pid)
        self._process.kill()
        for pid, began in family.items():
            if parent_and_begin(pid)[1] == began:  # no other process has its number by now
                os.kill(pid, signal.SIGKILL)
        self._process.communicate()  # ends when none of them has its output open
        self._log.close()

    def replicas(self) -> list[int]:
        """Process ids of the replicas, oldest first."""
        found = descendants(self._process.pid)
        return sorted((pid for pid in found if title(pid).startswith("ray::ServeReplica:")), key=found.__getitem__)

    def ready_replicas(self) -> list[int]:
        """Those that have solved a problem, oldest first."""
        return [pid for pid in self.replicas() if '"event":"Ready' in self.log_of(pid)]

    def log_of(self, pid: int) -> str:
        """What a replica has logged."""
        logs = (self._folder / "ray").glob(f"session_2*/logs/worker-*-{pid}.err")
        return "".join(path.read_text() for path in logs)

    def answerers(self, prefix: str, count: int) -> dict[str, int]:
        """Which replica has answered each of so many requests whose ids begin so; waits for the lines of their logs."""
        end = time.monotonic() + ANSWER_S
        while True:
            found = {}
            for pid in self.replicas():
                for request_id in re.findall(rf'"request_id":"({prefix}[^"]*)"', self.log_of(pid)):
                    found[request_id] = pid
            if len(found) >= count or time.monotonic() > end:
                return found
            time.sleep(0.1)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/health/ready", timeout=ANSWER_S):
            return True  # an answer of another status is an error
        return False


@contextmanager
def ray_cluster(replicas: int, variables: Mapping[str, str]) -> Iterator[RayCluster]:
    """Run replicas of the service on a cluster with further variables of its environment, and end it afterwards.

    On a machine so busy that a node is late, the cluster is started again.
    """
    with ExitStack() as stack:
        for starts_left in reversed(range(STARTS)):
            made = tempfile.TemporaryDirectory(prefix="ik", ignore_cleanup_errors=True)  # short: it holds sockets
            cluster = RayCluster(Path(stack.enter_context(made)), replicas, variables)
            stack.callback(cluster.end)
            try:
                cluster.wait_until_ready()
                break
            except LateNodeError:
                if not starts_left:
                    raise
                stack.close()
        yield cluster


def descendants(root: int) -> dict[int, int]:
    """Process ids of all that a process has started and that live, and when they began, in ticks of the kernel."""
    seen = {int(path.name): parent_and_begin(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    found, waiting = {}, [root]
    while waiting:
        parent = waiting.pop()
        children = {pid: begin for pid, (above, begin) in seen.items() if above == parent}
        found |= children
        waiting += children
    return found


def parent_and_begin(pid: int) -> tuple[int, int]:
    """Parent of a process, and when it began, in ticks of the kernel; -1 for both where there is none."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[1]), int(fields[19])
    return -1, -1


def title(pid: int) -> str:
    """What a process calls itself; nothing where there is none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    return ""
