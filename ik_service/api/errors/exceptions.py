"""Errors of the HTTP surface that no floor below knows; `problems` says how each is answered.

IKError
├── AccessError              the caller may not do this
│   ├── MissingKeyError      no API key
│   ├── WrongKeyError        an API key that is none
│   ├── KeyRightsError       an API key that may not do this
│   ├── UntrustedHostError   asked under a name that is not this machine's
│   ├── UntrustedOriginError a web page of elsewhere opens a stream
│   ├── MetricsClosedError   metrics need an API key here
│   └── UploadsDisabledError robots cannot be put or deleted here
├── BodyTimeoutError         the body came too slowly
├── CatalogStorageError      the disk does not take a change of the catalog
│   └── CatalogStorageFullError  because it has no room
└── InputError
    ├── RobotNameError       a name that no robot can be put under
    ├── ReadOnlyRobotError   a built-in robot would change
    ├── CatalogFullError     no more robots can be put
    ├── StaleRobotError      the robot is not the one that the caller knows
    ├── NoUrdfError          a robot that did not come from a URDF
    ├── AnswerTooLargeError  an answer larger than is sent
    └── MjcfRefusedError     MJCF where only URDF is taken
"""

from objectives.errors import IKError, InputError


class AccessError(IKError):
    """The caller may not do this."""


class MissingKeyError(AccessError):
    """The request brings no API key."""


class WrongKeyError(AccessError):
    """The request brings an API key that is none of this service."""


class KeyRightsError(AccessError):
    """The API key is good, but not for this."""


class UntrustedHostError(AccessError):
    """The request asks for a name that is not this machine's: a web page may stand behind it."""


class UntrustedOriginError(AccessError):
    """A web page of an origin that is not allowed opens a stream."""


class MetricsClosedError(AccessError):
    """Metrics are open on loopback only, or with an API key."""


class UploadsDisabledError(AccessError):
    """Robots cannot be put or deleted at run time."""


class BodyTimeoutError(IKError):
    """The body did not come in within its time."""


class CatalogStorageError(IKError):
    """The disk does not take a change of the catalog; what was there stays."""


class CatalogStorageFullError(CatalogStorageError):
    """The disk has no room for a robot."""


class RobotNameError(InputError):
    """A name that no robot can be put under."""


class ReadOnlyRobotError(InputError):
    """The robot came with the service and stays as it is."""


class CatalogFullError(InputError):
    """As many robots as allowed have been put."""


class StaleRobotError(InputError):
    """The robot is not the one that the caller's precondition names."""


class NoUrdfError(InputError):
    """The robot was not read from a URDF."""


class AnswerTooLargeError(InputError):
    """The answer would be larger than any that is sent."""


class MjcfRefusedError(InputError):
    """An MJCF document, which is only read from local files."""
