"""Names of cipher suites: Java's (IANA's), and OpenSSL's, which differ for TLS 1.2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from pylogbroker.errors import ConfigError

TLS_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""OpenSSL offers all of these with TLS 1.3; Python cannot leave one out."""

_EXCHANGES: Final = {"ECDHE_ECDSA": "ECDHE-ECDSA-", "ECDHE_RSA": "ECDHE-RSA-", "DHE_RSA": "DHE-RSA-", "RSA": ""}
_CIPHERS: Final = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
}
_MISSING: Final = {  # combinations that no standard defines
    *(f"{exchange}_WITH_AES_256_CBC_SHA256" for exchange in ("ECDHE_ECDSA", "ECDHE_RSA")),
    *(f"{exchange}_WITH_AES_256_CBC_SHA384" for exchange in ("DHE_RSA", "RSA")),
    "RSA_WITH_CHACHA20_POLY1305_SHA256",
}
TLS_1_2: Final[Mapping[str, str]] = {
    f"TLS_{exchange}_WITH_{cipher}": prefix + name
    for exchange, prefix in _EXCHANGES.items()
    for cipher, name in _CIPHERS.items()
    if f"{exchange}_WITH_{cipher}" not in _MISSING
}
"""OpenSSL's names by Java's."""


@attrs.frozen
class CipherSuites:
    """OpenSSL's list for TLS 1.2, empty without that version, and whether TLS 1.3 is offered."""

    tls_1_2: str
    has_tls_1_3: bool


def choose(names: Iterable[str]) -> CipherSuites:
    """Return the suites of `ssl.cipher.suites`; raise ConfigError for unknown names, or a part of TLS 1.3's."""
    given = set(names)
    newest = given.intersection(TLS_1_3)
    older = [TLS_1_2.get(name, name) for name in names if name not in TLS_1_3]
    unknown = sorted(set(older) - set(TLS_1_2.values()))
    if unknown:
        raise ConfigError(
            f"ssl.cipher.suites: {unknown[0]!r} is not a known name of a cipher suite, Java's or OpenSSL's"
        )
    if newest and len(newest) < len(TLS_1_3):
        raise ConfigError(
            f"ssl.cipher.suites: has {', '.join(sorted(newest))} alone; the suites of TLS 1.3 are offered together: "
            f"name {', '.join(TLS_1_3)}, or none of them"
        )
    return CipherSuites(":".join(older), bool(newest))
