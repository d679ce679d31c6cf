"""Address of the schema registry that is a part of a broker, by its settings."""

from __future__ import annotations

from typing import Final

LISTENERS: Final = "schema.registry.listeners"
ADVERTISED: Final = "schema.registry.advertised.url"
_ANY_HOSTS: Final = ("0.0.0.0", "::")
_LOOPBACK: Final = "127.0.0.1"


def advertised_url(advertised: str | None, listeners: str | None, host: str) -> str | None:
    """Return the address of a registry, None without one; `host` is the broker's, empty if it is not known.

    None, too, for the port 0, which does not say where the registry listens.
    """
    first = (advertised or listeners or "").partition(",")[0].strip().rstrip("/")
    if not first:
        return None
    scheme, _, place = first.partition("://")
    own_host, _, port = place.rpartition(":")
    own_host = own_host.strip("[]") or _LOOPBACK
    if port == "0":
        return None
    if own_host in _ANY_HOSTS and host:
        own_host = host
    return f"{scheme.lower()}://{f'[{own_host}]' if ':' in own_host else own_host}:{port}"
