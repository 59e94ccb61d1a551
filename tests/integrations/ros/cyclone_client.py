"""A client of services of ROS 2 over Cyclone DDS, without ROS: another stack, and other code that packs the messages.

Types are made from `definitions`. Fast DDS tells requests apart by what they carry beside their payload, which Cyclone
neither writes nor reads: so this client has one request under way at a time, and nobody else may ask meanwhile.
"""

import sys
import textwrap
import time
from functools import cache
from pathlib import Path

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import make_idl_struct, types
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

sys.path.insert(0, str(Path(__file__).parent))

from definitions import MESSAGES, SERVICES

CONFIGURATION = """<CycloneDDS><Domain>
<General><Interfaces><NetworkInterface name="lo" multicast="true"/></Interfaces></General>
<Discovery><ParticipantIndex>auto</ParticipantIndex><Peers><Peer address="127.0.0.1"/></Peers></Discovery>
</Domain></CycloneDDS>"""
"""Of CYCLONEDDS_URI, for programs on one machine."""
PRIMITIVES = {"string": str, "bool": bool, "byte": types.byte}
TIMES = dict.fromkeys(("builtin_interfaces/Time", "builtin_interfaces/Duration"), "int32 sec\nuint32 nanosec")
POLL, QUIET = 1e-4, 1.0  # [s]
FIELDS = {}
"""Fields of each type that was made."""


def _element(word, package):
    """Return a type, the bracket behind it that makes a sequence or an array of it, and the size inside."""
    word, bracket, size = word.removesuffix("]").partition("[")
    if word in PRIMITIVES:
        return PRIMITIVES[word], bracket, size
    made = getattr(types, word, None)
    return made or message_type(word if "/" in word else f"{package}/{word}"), bracket, size


def _field_type(element, bracket, size):
    if not bracket:
        return element
    if size.isdigit():
        return types.array[element, int(size)]
    return types.sequence[element, int(size.removeprefix("<="))] if size else types.sequence[element]


def _struct(name, kind, text):
    package, _, short = name.partition("/")
    lines = [line.split() for line in textwrap.dedent(text).strip().splitlines()]
    fields = {line[1]: _element(line[0], package) for line in lines}
    annotations = {name: _field_type(*field) for name, field in fields.items()}
    made = make_idl_struct(short, f"{package}::{kind}::dds_::{short}_", annotations)
    FIELDS[made] = fields
    return made


@cache
def message_type(name):
    """Return the type of a message such as "geometry_msgs/Pose"."""
    return _struct(name, "msg", {**MESSAGES, **TIMES}[name])


def empty(kind):
    """Return a value of a type that `_struct` has made: numbers are 0, texts and sequences empty."""
    values = {}
    for name, (element, bracket, size) in FIELDS[kind].items():
        if bracket and not size.isdigit():
            values[name] = []
            continue
        one = {str: "", bool: False}.get(element, 0.0 if element in (types.float32, types.float64) else 0)
        one = empty(element) if element in FIELDS else one
        values[name] = [one] * int(size) if bracket else one
    return kind(**values)


class CycloneClient:
    """Calls one service.

    Args:
        domain: Number of the DDS domain, ROS_DOMAIN_ID.
        service: Type of the service such as "moveit_msgs/GetPositionIK".
        name: Its name, without a slash in front.
    """

    def __init__(self, domain, service, name):
        texts = SERVICES[service].split("---")
        self.request_type, response_type = (
            _struct(f"{service}_{part}", "srv", text) for part, text in zip(("Request", "Response"), texts, strict=True)
        )
        qos = Qos(
            Policy.Reliability.Reliable(duration(seconds=1)),
            Policy.History.KeepLast(10),
            Policy.DataRepresentation(use_cdrv0_representation=True, use_xcdrv2_representation=False),
        )
        participant = DomainParticipant(domain)
        self._writer = DataWriter(participant, Topic(participant, f"rq/{name}Request", self.request_type), qos=qos)
        self._reader = DataReader(participant, Topic(participant, f"rr/{name}Reply", response_type), qos=qos)

    def wait(self, timeout):
        """Wait until the service answers, at most so long [s]; return whether it does.

        That the other side is seen here does not say that it sees this one: empty requests are sent until answers come.
        """
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self._writer.get_matched_subscriptions() and self._reader.get_matched_publications():
                self._writer.write(empty(self.request_type))
                if self._answer(QUIET) is not None:
                    while self._answer(QUIET) is not None:
                        pass  # answers to the requests before
                    return True
            time.sleep(0.01)
        return False

    def call(self, request, timeout=10.0):
        """Return the response to a request."""
        self._writer.write(request)
        response = self._answer(timeout)
        if response is None:
            raise TimeoutError("no answer came")
        return response

    def _answer(self, timeout):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            for response in self._reader.take(1):
                return response
            time.sleep(POLL)
        return None
