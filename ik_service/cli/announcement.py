"""The announcement of `ik-service serve`: its address, and a request to try once the service is ready."""

import logging
import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from ik_service.cli.console import message_console
from ik_service.cli.health_command import reachable_url
from ik_service.service.gate.logs import is_for_people
from ik_service.service.routes.state import ServiceState
from ik_service.service.schema.examples import SOLVE_REQUESTS
from ik_service.service.warm_up import first_request, warmed_robots
from ik_service.settings import ServiceSettings

_logger = logging.getLogger(__name__)

Example = tuple[str, dict[str, Any]]  # name of a robot and the body of a solve for it


def example_request(state: ServiceState) -> Example:
    """Return a served robot and a request body for this robot: panda and its example, or else the first robot."""
    name, robot = warmed_robots(state)[0]
    if name == "panda":
        return name, SOLVE_REQUESTS["one_pose"]
    request = first_request(robot)
    (target,), arrays = request.targets, request.batch
    (positions,), (orientations,) = arrays.positions, arrays.orientations_xyzw
    assert positions is not None
    assert orientations is not None
    pose = {"positions": np.round(positions, 6).tolist(), "orientations_xyzw": np.round(orientations, 6).tolist()}
    return name, {"targets": [{"link": target.link, **pose}]}


def curl_line(host: str, port: int, robot: str, body: Mapping[str, Any], *, with_key: bool = False) -> str:
    """Return a shell command for a solve by a service at a listening address; `with_key` if it requires an API key."""
    data = shlex.quote(orjson.dumps(body).decode())
    key = ' -H "X-API-Key: $KEY"' if with_key else ""
    url = f"{reachable_url(host, port)}/v1/robots/{robot}/solve"
    return f"curl -s {url}{key} -H 'Content-Type: application/json' -d {data}"


class Announcement:
    """Announces a service at a listening address: as a message on a terminal, otherwise as log lines."""

    def __init__(self, settings: ServiceSettings, host: str, port: int) -> None:
        self._settings, self._host, self._port = settings, host, port

    @property
    def is_for_people(self) -> bool:
        """Return whether people read the output."""
        return is_for_people(self._settings)

    def say_listening(self) -> None:
        """Announce the open port, before the service is ready."""
        self._say(f"Listening on http://{self._host}:{self._port}, loading kernels ...")

    def say_ready(self, device: str, example: Example) -> None:
        """Announce the ready service, its device, and a request to try."""
        line = curl_line(self._host, self._port, *example, with_key=bool(self._settings.keys))
        if self.is_for_people:
            self._say(f"Ready, solving on {device}. Try:\n\n{line}\n")
        else:
            self._say(f"Ready at http://{self._host}:{self._port}, solving on {device}. Try: {line}")

    def say_where_to_look(self) -> None:
        """Announce the URL of the page, on a terminal."""
        if self.is_for_people:
            self._say(f"Open {reachable_url(self._host, self._port)} in a browser - stop with Ctrl+C.")

    def _say(self, text: str) -> None:
        if self.is_for_people:
            message_console().print(text, markup=False)
        else:
            _logger.info("%s", text)
