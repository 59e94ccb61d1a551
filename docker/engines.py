"""What builds an image and runs it: docker or podman; or buildah, with containers started here by hand.

A container here is a process of the image's user in a mount namespace: the image read-only, a fresh file system in
memory at /tmp, no capabilities. Its network is that of the machine.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

END_S = 60.0
# Mounts the image and becomes the program: the process that was started is the one that serves.
SANDBOX = """
set -eu
mount --make-rprivate /
mount --bind "$IMAGE_ROOT" "$PLACE"
for pair in $VOLUMES; do mount --bind "${pair%%:*}" "$PLACE${pair#*:}"; done
mount -o remount,ro,bind "$PLACE"
mount -t tmpfs -o size=256m,mode=1777 tmpfs "$PLACE/tmp"
mount -t proc proc "$PLACE/proc"
mount --rbind /dev "$PLACE/dev"
exec chroot "$PLACE" "$@"
"""
POWERLESS = ("--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")


@dataclass(frozen=True)
class Running:
    """A started container.

    Attributes:
        process: What was started here; it ends as the container does.
        stop: Command that sends it SIGTERM; none sends it to the process.
    """

    process: "subprocess.Popen[str]"
    stop: tuple[str, ...] = ()

    def end(self) -> tuple[int, str]:
        """Have it end by SIGTERM; return its exit code and what it printed."""
        if self.stop:
            call(*self.stop)
        else:
            self.process.send_signal(signal.SIGTERM)
        return self.finish()

    def finish(self) -> tuple[int, str]:
        """Wait for its end; return its exit code and what it printed."""
        printed = self.process.communicate(timeout=END_S)[0]
        return self.process.returncode, printed


class Engine:
    """Docker, or what takes the same commands.

    Args:
        name: Its command.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def can_pull(self, image: str, seconds: float) -> bool:
        """Whether an image can be had within some time."""
        try:
            done = subprocess.run(
                [self.name, "pull", "--quiet", image], capture_output=True, check=False, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def build(
        self,
        image: str,
        dockerfile: pathlib.Path,
        context: pathlib.Path,
        arguments: Mapping[str, str],
        secrets: Mapping[str, pathlib.Path],
    ) -> None:
        """Build an image."""
        options = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        options += [word for name, path in secrets.items() for word in ("--secret", f"id={name},src={path}")]
        call(*self.build_command(), *options, "--file", str(dockerfile), "--tag", image, str(context))

    def build_command(self) -> tuple[str, ...]:
        """What a build begins with."""
        return (self.name, "build", "--network", "host")

    def config(self, image: str) -> dict[str, Any]:
        """The image's configuration, in the words of its format."""
        found: dict[str, Any] = json.loads(output(self.name, "image", "inspect", image))[0]["Config"]
        return found

    def size(self, image: str) -> int:
        """Bytes of all files of an image."""
        return int(json.loads(output(self.name, "image", "inspect", image))[0]["Size"])

    def start(
        self,
        image: str,
        *program: str,
        port: int = 0,
        variables: Mapping[str, str] | None = None,
        volumes: Mapping[pathlib.Path, str] | None = None,
    ) -> Running:
        """Start a container with a read-only root.

        Args:
            image: The image.
            program: What to run instead of what the image says; none runs that.
            port: Port that it is to listen on.
            variables: Environment variables besides the image's.
            volumes: Folders here, by which path they have in the container.
        """
        name = f"ik-service-trial-{os.getpid()}-{time.monotonic_ns()}"
        command = [self.name, "run", "--rm", "--name", name, "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"]
        command += ["--security-opt", "no-new-privileges", "--publish", f"127.0.0.1:{port}:{port}"] if port else []
        command += [word for key, value in (variables or {}).items() for word in ("--env", f"{key}={value}")]
        command += [word for path, place in (volumes or {}).items() for word in ("--volume", f"{path}:{place}")]
        command += [*(["--entrypoint", program[0]] if program else []), image, *program[1:]]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return Running(process, (self.name, "stop", "--time", str(int(END_S)), name))

    def close(self) -> None:
        """Let go of what trying an image took."""


class Chroot(Engine):
    """Buildah, which builds without a daemon, and containers started here."""

    def __init__(self) -> None:
        super().__init__("buildah")
        self._container = ""
        self._root = ""
        self._place = ""  # where each container mounts the image, in a namespace of its own

    def build_command(self) -> tuple[str, ...]:
        """What a build begins with; without `--layers`, which takes several times as long."""
        return (
            "buildah",
            "build",
            "--isolation",
            "chroot",
            "--format",
            "docker",
            "--network",
            "host",
            "--layers=false",
        )

    def config(self, image: str) -> dict[str, Any]:
        """The image's configuration, in the words of its format."""
        found: dict[str, Any] = json.loads(output("buildah", "inspect", "--type", "image", image))
        return dict(found["Docker"]["config"])

    def size(self, image: str) -> int:
        """Bytes of all files of an image."""
        self._mount(image)
        return int(output("du", "--summarize", "--bytes", "--one-file-system", self._root).split()[0])

    def start(
        self,
        image: str,
        *program: str,
        port: int = 0,
        variables: Mapping[str, str] | None = None,
        volumes: Mapping[pathlib.Path, str] | None = None,
    ) -> Running:
        """Start a container with a read-only root; see `Engine.start`."""
        self._mount(image)
        config = self.config(image)
        words = list(program) or [*config["Entrypoint"], *config["Cmd"]]
        user, _, group = config["User"].partition(":")
        given = [*config["Env"], *(f"{key}={value}" for key, value in (variables or {}).items())]
        own = ["/usr/bin/setpriv", "--reuid", user, "--regid", group, *POWERLESS]
        command = ["unshare", "--mount", "sh", "-c", SANDBOX, "sh", *own, "/usr/bin/env", "-i"]
        command += ["-C", config["WorkingDir"], *given, *words]
        mounts = " ".join(f"{path}:{target}" for path, target in (volumes or {}).items())
        ours = os.environ | {"IMAGE_ROOT": self._root, "PLACE": self._place, "VOLUMES": mounts}
        process = subprocess.Popen(command, env=ours, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return Running(process)

    def close(self) -> None:
        """Let go of what trying an image took."""
        if self._container:
            output("buildah", "rm", self._container)
            os.rmdir(self._place)
            self._container = ""

    def _mount(self, image: str) -> None:
        if not self._container:
            self._container = output("buildah", "from", "--pull-never", image)
            self._root = output("buildah", "mount", self._container)
            self._place = tempfile.mkdtemp()


def call(*command: str) -> None:
    """Run a command that must succeed."""
    if subprocess.run(command, check=False).returncode:
        sys.exit(f"This failed: {' '.join(command)}")


def output(*command: str) -> str:
    """Run a command and return what it prints."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def find(asked: str | None) -> Engine:
    """The engine asked for, or the first that works."""
    if asked:
        return Chroot() if asked == "buildah" else Engine(asked)
    for name in ("docker", "podman"):
        if shutil.which(name) and subprocess.run([name, "info"], capture_output=True, check=False).returncode == 0:
            return Engine(name)
    return Chroot()
