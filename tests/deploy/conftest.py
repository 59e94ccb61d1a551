import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
import yaml
from pydantic.warnings import PydanticDeprecatedSince20

with warnings.catch_warnings():
    # Of Ray's own models, on every import of it.
    warnings.filterwarnings("ignore", "Using extra keyword arguments on `Field`", PydanticDeprecatedSince20)
    import ray.serve  # noqa: F401

CONFIGURATION = Path(__file__).parents[2] / "docker" / "ray" / "cpu.yaml"
KEY = "0123456789abcdef"
START_S = 300.0  # the first solve on a machine compiles kernels
END_S = 60.0  # Ray gives its controller 30 s
REPLICAS = 2


class RayCluster:
    """`docker/ray/cpu.yaml` on a cluster of this machine: two replicas, behind a free port of loopback.

    Attributes:
        url: Where it answers.
        address: Of the cluster, for `ray.init`.
    """

    def __init__(self, folder: Path) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            port = free.getsockname()[1]
        configuration = yaml.safe_load(CONFIGURATION.read_text())
        configuration["http_options"] |= {"host": "127.0.0.1", "port": port}
        deployment = configuration["applications"][0]["deployments"][0]
        del deployment["autoscaling_config"]
        deployment["num_replicas"] = REPLICAS
        (folder / "serve.yaml").write_text(yaml.safe_dump(configuration))
        own = {name: value for name, value in os.environ.items() if not name.startswith(("IK_SERVICE_", "RAY_"))}
        variables = {
            "RAY_AUTH_MODE": "disabled",  # nobody but this machine can reach the cluster
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "ik_service.deploy.proxy_layer.layers",
            "IK_SERVICE_API_KEYS": f"lab:{KEY}",
            "IK_SERVICE_CATALOG_DIR": str(folder / "robots"),
            "IK_SERVICE_UPLOADS_ENABLED": "true",
            "IK_SERVICE_LOG_FORMAT": "json",
        }
        program = Path(__file__).with_name("cluster.py")
        self._folder = folder
        self._log = (folder / "cluster.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, str(program), str(folder / "ray"), str(folder / "serve.yaml")],
            env={**own, **variables},
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self.url = f"http://127.0.0.1:{port}"
        self.address = ""

    def wait_until_ready(self) -> None:
        """Until both replicas have solved."""
        self.address = self._process.stdout.readline().decode().strip()
        deadline = time.monotonic() + START_S
        while len(self.ready_replicas()) < REPLICAS:
            assert self._process.poll() is None, (self._folder / "cluster.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        while not self._answers():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def end(self) -> None:
        """Ends it, and whatever of it is left."""
        family = descendants(self._process.pid)
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.communicate(timeout=END_S)
        finally:
            for pid, name in descendants(self._process.pid, also=family).items():
                if family.get(pid) == name:
                    os.kill(pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait(END_S)
            self._process.stdout.close()
            self._log.close()

    def replicas(self) -> list[int]:
        """Process ids of the replicas."""
        return [pid for pid, name in descendants(self._process.pid).items() if name.startswith("ray::ServeReplica:")]

    def ready_replicas(self) -> list[int]:
        """Those that have solved a problem."""
        return [pid for pid in self.replicas() if '"event":"Ready' in self.log_of(pid)]

    def log_of(self, pid: int) -> str:
        """What a replica has logged."""
        logs = (self._folder / "ray").glob(f"session_*/logs/worker-*-{pid}.err")
        return "".join(path.read_text() for path in logs if not path.parent.parent.is_symlink())

    def answerers(self, prefix: str) -> dict[str, int]:
        """Which replica has answered each request whose id begins so."""
        found = {}
        for pid in self.replicas():
            for request_id in re.findall(rf'"request_id":"({prefix}[^"]*)"', self.log_of(pid)):
                found[request_id] = pid
        return found

    def _answers(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/health/ready", timeout=END_S).status_code == 200
        except httpx2.TransportError:
            return False


def descendants(root: int, also: dict[int, str] | None = None) -> dict[int, str]:
    """Process ids and titles of all that a process has started, and of those named that still live."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(path.name)] = (path / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
        except OSError:
            continue
    found = {pid: names[pid] for pid in (also or {}) if pid in names}
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        children = [pid for pid, above in parents.items() if above == parent and pid in names]
        found |= {pid: names[pid] for pid in children}
        waiting += children
    return found


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    with tempfile.TemporaryDirectory(prefix="ik", ignore_cleanup_errors=True) as folder:  # short: it holds sockets
        cluster = RayCluster(Path(folder))
        try:
            cluster.wait_until_ready()
            yield cluster
        finally:
            cluster.end()
