"""What can go wrong between bytes and messages."""

from pylogbroker.errors import ErrorCode, KafkaError, ProtocolViolation, PylogbrokerError


class WireError(ProtocolViolation):
    """Bytes that are not what they are said to be: cut off, left over, or impossible in themselves."""


class EncodingError(PylogbrokerError):
    """A message that its version cannot carry: a value out of range, a null or a field it does not know."""


class UnsupportedVersion(KafkaError):
    """An API that is not declared here, or not in that version."""

    code = ErrorCode.UNSUPPORTED_VERSION
