"""Errors of encoding and decoding."""

from pylogbroker.errors import ErrorCode, KafkaError, ProtocolViolation, PylogbrokerError


class WireError(ProtocolViolation):
    """Invalid bytes: truncated, too long, or contradictory."""


class OtherProtocol(WireError):
    """The start of a stream of another protocol."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


class EncodingError(PylogbrokerError):
    """A message that its version cannot express: a value out of range, an invalid null, or an absent field."""


class UnsupportedVersion(KafkaError):
    """An undeclared API or version."""

    code = ErrorCode.UNSUPPORTED_VERSION
