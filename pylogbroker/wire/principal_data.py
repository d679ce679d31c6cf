"""A client's principal as brokers send it to each other (KIP-684).

version int16 (0) | type compact string | name compact string | by token boolean | tagged fields
"""

from pylogbroker.wire.schema import Boolean, String, Versions, WireMessage, struct
from pylogbroker.wire.versioned_messages import encode


@struct
class PrincipalData(WireMessage):
    """Kafka's DefaultPrincipalData."""

    versions = Versions(0, 0, flexible=0)

    type: String = ""
    name: String = ""
    token_authenticated: Boolean = False


def encode_principal(principal: str, by_token: bool) -> bytes:
    """Encode a principal that is written as `User:name`."""
    kind, _, name = principal.partition(":")
    return encode(PrincipalData(kind, name, by_token), 0)
