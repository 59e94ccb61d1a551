"""Errors of the HTTP surface that lower floors do not know; `problem_documents` says how each is answered.

IKError
├── AccessError              the caller may not do this
│   ├── MissingKeyError      no API key
│   ├── WrongKeyError        an unknown API key
│   ├── KeyRightsError       the API key may not do this
│   ├── UntrustedHostError   the Host header does not name this machine
│   ├── UntrustedOriginError a web page of another origin opens a stream
│   ├── MetricsClosedError   metrics need an API key here
│   └── UploadsDisabledError nothing can be put or deleted here
├── BodyTimeoutError         the body came too slowly
├── RepeatedHeaderError      a header twice, of which one could be overlooked
├── NotReadyError            the service is starting, or failed to start
├── CatalogStorageError      the disk does not take a change of the catalog
│   └── CatalogStorageFullError  because it has no room
├── InputError
│   ├── FaultyFieldsError    fields that break the schema
│   ├── MalformedBodyError   not JSON
│   │   ├── MalformedMsgpackError  not MessagePack
│   │   └── MalformedNpzError      not an archive of arrays
│   ├── MediaTypeError       a media type that is not served
│   ├── ContentEncodingError a compressed body
│   ├── NotAcceptableError   no media type that the client accepts
│   ├── BodyTooLargeError    too many bytes
│   ├── TooManyProblemsError too many problems
│   ├── AnswerTooLargeError  an answer larger than is sent
│   ├── RobotNameError       a name that no robot can have
│   ├── WorldNameError       a name that no world can have
│   ├── ReadOnlyRobotError   a built-in robot would change
│   ├── CatalogFullError     no more robots or worlds can be put
│   ├── StaleEntryError      the precondition of the caller does not hold
│   ├── NoUrdfError          the robot was not read from a URDF
│   └── MjcfRefusedError     MJCF where only URDF is read
└── UnknownNameError
    ├── UnknownRobotError    no robot of that name is served
    └── UnknownWorldError    no world of that name is kept
"""

from collections.abc import Iterable
from itertools import islice

from pydantic import BaseModel, Field

from objectives.errors import IKError, InputError, UnknownNameError

FAULTS_MAX, POINTER_LENGTH = 16, 1024
"""Faults that an answer lists, and characters of a pointer, in which names of the caller stand; no more is made."""


class FaultBody(BaseModel):
    """One fault of a request body."""

    pointer: str = Field(description="JSON pointer (RFC 6901) to the fault; empty for the whole body.")
    code: str = Field(description="Stable name of the kind of fault.")
    detail: str = Field(description="What is wrong and what is allowed.")


class FaultyFieldsError(InputError):
    """Fields of the body that break the schema; `faults` names each."""

    def __init__(self, faults: Iterable[FaultBody]) -> None:
        """Keep the first faults, in the order found, at least one."""
        self.faults = tuple(islice(faults, FAULTS_MAX))
        first = self.faults[0]
        super().__init__(f"{first.pointer or 'The body'}: {first.detail}")


def faulty_field(pointer: str, code: str, detail: str) -> FaultyFieldsError:
    """Return the error for one fault; see `FaultBody`."""
    return FaultyFieldsError([FaultBody(pointer=pointer, code=code, detail=detail)])


def pointer_token(token: object) -> str:
    """Return a key or index as it is written in a JSON pointer, cut, without characters that UTF-8 cannot hold."""
    return str(token)[:POINTER_LENGTH].replace("~", "~0").replace("/", "~1").encode(errors="replace").decode()


class MalformedBodyError(InputError):
    """The body is not JSON in UTF-8."""


class MalformedMsgpackError(MalformedBodyError):
    """The body is not a MessagePack document of plain types."""


class MalformedNpzError(MalformedBodyError):
    """The body is not an archive of arrays."""


class MediaTypeError(InputError):
    """The body has a media type that is not served."""


class ContentEncodingError(InputError):
    """The body is compressed."""


class NotAcceptableError(InputError):
    """The client accepts no media type that is served."""


class BodyTooLargeError(InputError):
    """The body has more bytes than are allowed."""


class TooManyProblemsError(InputError):
    """The request holds more problems than are allowed."""


class UnknownRobotError(UnknownNameError):
    """No robot of that name is served."""


class UnknownWorldError(UnknownNameError):
    """No world of that name is kept."""


class NotReadyError(IKError):
    """The service is still starting, or has failed to start."""


class AccessError(IKError):
    """The caller may not do this."""


class MissingKeyError(AccessError):
    """The request has no API key."""


class WrongKeyError(AccessError):
    """The API key of the request is unknown."""


class KeyRightsError(AccessError):
    """The API key is known, but may not do this."""


class UntrustedHostError(AccessError):
    """The Host header does not name this machine: a web page may have sent the request."""


class UntrustedOriginError(AccessError):
    """A web page whose origin is not allowed opens a stream."""


class MetricsClosedError(AccessError):
    """Metrics are open on loopback only, or with an API key."""


class UploadsDisabledError(AccessError):
    """Nothing can be put or deleted at run time."""


class BodyTimeoutError(IKError):
    """The body was not received within its time limit."""


class RepeatedHeaderError(IKError):
    """A header that says who asks, or under which condition, stands in the request twice."""


class CatalogStorageError(IKError):
    """The disk does not take a change of the catalog; the catalog is unchanged."""


class CatalogStorageFullError(CatalogStorageError):
    """The disk has no room for what is put."""


class RobotNameError(InputError):
    """A name that no robot can have."""


class WorldNameError(InputError):
    """A name that no world can have."""


class ReadOnlyRobotError(InputError):
    """The robot is built in and cannot change."""


class CatalogFullError(InputError):
    """As many robots or worlds as allowed have been put."""


class StaleEntryError(InputError):
    """The robot or world does not meet the caller's precondition."""


class NoUrdfError(InputError):
    """The robot was not read from a URDF."""


class AnswerTooLargeError(InputError):
    """The answer would be larger than the limit."""


class MjcfRefusedError(InputError):
    """An MJCF document, which is only read from local files."""
