"""Causes of failed TLS connections, in words: errors of OpenSSL, seen from the broker's side or the client's."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Final

from pylogbroker.errors import PylogbrokerError

PEER_CLOSED: Final = "the peer closed the connection"
CLOSED_IN_HANDSHAKE: Final = f"TLS: {PEER_CLOSED}; does this listener have TLS?"
"""For clients, which name the setting."""
_NO_COMMON: Final = "the two sides have no {} in common"
_PLACE: Final = re.compile(r"^\[[^]]*\] | \(_ssl\.c:\d+\)$")
_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_NOT_TRUSTED: Final = (18, 19, 20, 21)  # self-signed, or no chain to an authority
_NOT_YET_VALID: Final = 9  # X509_V_ERR_CERT_NOT_YET_VALID
_OTHER_HOST: Final = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH

_RENEWAL: Final = ": give the broker a new one, or is this machine's clock wrong?"

_BOTH: Final[Mapping[str, str]] = {
    "NO_SHARED_CIPHER": _NO_COMMON.format("cipher suite (ssl.cipher.suites)"),
    "SSLV3_ALERT_HANDSHAKE_FAILURE": _NO_COMMON.format("cipher suite or signature algorithm"),
    "UNSUPPORTED_PROTOCOL": _NO_COMMON.format("version of TLS (ssl.enabled.protocols)"),
    "TLSV1_ALERT_PROTOCOL_VERSION": _NO_COMMON.format("version of TLS (ssl.enabled.protocols)"),
    "WRONG_VERSION_NUMBER": "the peer does not speak TLS",
    "UNEXPECTED_EOF_WHILE_READING": PEER_CLOSED,
}
_UNTRUSTED_BROKER: Final = "the client does not trust this broker's certificate, or its host name"
_REJECTED_CLIENT: Final = "the broker rejects this client's certificate"
_ON_BROKER: Final[Mapping[str, str]] = {
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _UNTRUSTED_BROKER,
    "SSLV3_ALERT_BAD_CERTIFICATE": _UNTRUSTED_BROKER,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this broker's certificate has expired, says the client",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, which ssl.client.auth=required asks for",
}
_ON_CLIENT: Final[Mapping[str, str]] = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the broker asks for a client certificate: set ssl.keystore.location",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the two sides have no cipher suite in common, or the broker asks for a client "
    "certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "the broker does not trust this client's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _REJECTED_CLIENT,
    "SSLV3_ALERT_BAD_CERTIFICATE": _REJECTED_CLIENT,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this client's certificate has expired, says the broker",
}


class TlsFailed(PylogbrokerError):
    """End of a connection by TLS; the text is the cause."""


class ClosedInHandshake(TlsFailed):
    """The peer has closed the connection: perhaps it does not speak TLS."""

    def __init__(self) -> None:
        super().__init__(CLOSED_IN_HANDSHAKE)


def describe(error: ssl.SSLError, is_server: bool) -> str:
    """Return the cause of an error, for the log of this side."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _unverified(error, is_server)
    reason = getattr(error, "reason", None) or ""
    cause = (_ON_BROKER if is_server else _ON_CLIENT).get(reason) or _BOTH.get(reason)
    if cause is not None:
        return cause
    return reason.lower().replace("_", " ") or _PLACE.sub("", str(error))


def _unverified(error: ssl.SSLCertVerificationError, is_server: bool) -> str:
    peer = "client" if is_server else "broker"
    why = error.verify_message
    if error.verify_code == _EXPIRED:
        return f"the {peer}'s certificate has expired" + (_RENEWAL if not is_server else "")
    if error.verify_code == _NOT_YET_VALID:
        return f"the {peer}'s certificate is not valid yet: are the clocks of both machines right?"
    if error.verify_code in _NOT_TRUSTED:
        cure = "" if is_server else "; name its authority's file by ssl.ca.location"
        return f"the {peer}'s certificate is not trusted (ssl.truststore): {why}{cure}"
    if error.verify_code in _OTHER_HOST:
        cure = "" if is_server else "; connect by a name that it has, or give the broker one that has this name"
        return f"the {peer}'s certificate is of another host: {why.rstrip('.')}{cure}"
    return f"the {peer}'s certificate is invalid: {why}"
