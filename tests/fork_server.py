"""New processes that begin with the project imported: forks of one that has it, which spares each its seconds of CPU.

Each runs a program's text with variables of its own, as `python -c` would. Warp has not been started in them, so what
it reads from the environment is read anew. Root gives up in them what lets it write where modes forbid it.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
READY, PATIENCE_S = "ready", 300.0
CAP_DAC_OVERRIDE = 1
CAPABILITIES_3 = 0x20080522  # version of the structs of capget and capset


class ForkServer:
    """Starts programs at a server that listens on a socket."""

    def __init__(self, address: str) -> None:
        self._address = address

    def start(self, program: str, environment: dict[str, str]) -> socket.socket:
        """Begin a program; `finish` has what becomes of it."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE_S)
        connection.connect(self._address)
        connection.sendall(json.dumps([program, environment]).encode())
        connection.shutdown(socket.SHUT_WR)
        return connection

    def finish(self, connection: socket.socket) -> str:
        return self.finish_both(connection)[0]

    def finish_both(self, connection: socket.socket) -> tuple[str, str]:
        with connection, connection.makefile("rb") as reply:
            code, out, err = json.loads(reply.read())
        assert code == 0, err
        return out, err


@contextmanager
def fork_server(imports: str, **variables: str) -> Iterator[ForkServer]:
    """A server whose processes begin after some lines of Python, which find the variables in their environment."""
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder, "socket"))
        command = [sys.executable, "-m", __name__, address, imports]
        known = os.environ | {"OPENBLAS_NUM_THREADS": "1"} | variables  # what has threads should not fork
        with subprocess.Popen(
            command, env=known, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            try:
                assert process.stdout.readline().strip() == READY
                yield ForkServer(address)
            finally:
                os.killpg(process.pid, signal.SIGKILL)  # and what a test that failed has left


def _serve(address: str, imports: str) -> None:
    begun: dict[str, object] = {"__name__": "__main__"}
    exec(imports, begun)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that answer
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(connection, begun)
            os._exit(0)
        connection.close()


def _answer(connection: socket.socket, begun: dict[str, object]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with connection.makefile("rb") as asked:
        program, environment = json.loads(asked.read())
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            os._exit(_run(program, environment, begun))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said = [os.pread(file.fileno(), 2**24, 0).decode(errors="replace") for file in (out, err)]
    connection.sendall(json.dumps([code, *said]).encode())


def _run(program: str, environment: dict[str, str], begun: dict[str, object]) -> int:
    try:
        os.environ |= environment
        _give_up_overriding()
        exec(program, begun)
        return 0
    except BaseException:  # noqa: BLE001  # SystemExit too: the child prints whatever ends the program, and must not go on as its parent
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _give_up_overriding() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice
    assert libc.capget(header, sets) == 0
    for k in (0, 1):
        sets[k] &= ~(1 << CAP_DAC_OVERRIDE)
    assert libc.capset(header, sets) == 0


if __name__ == "__main__":
    _serve(*sys.argv[1:])
