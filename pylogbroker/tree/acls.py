"""Access control lists of nodes, with ZooKeeper's rules.

| scheme | id                               | matches                                            |
|--------|----------------------------------|----------------------------------------------------|
| world  | anyone                           | everybody                                          |
| auth   | ignored                          | never stored: the creator's identities are instead |
| digest | user:base64(sha1(user:password)) | sessions that have sent this user and password     |
| ip     | address or network               | connections from there                             |
| super  | empty                            | never stored: an identity that may do everything   |
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
from collections.abc import Collection, Sequence

from pylogbroker.interfaces import OPEN_ACL, Acl, InvalidAcl, NotPermitted, Permission

Identity = tuple[str, str]  # scheme and id
SUPER: Identity = ("super", "")


def digest(credentials: str) -> str:
    """Return the id of `user:password` in the scheme `digest`."""
    user = credentials.partition(":")[0]
    hashed = hashlib.sha1(credentials.encode(), usedforsecurity=False).digest()
    return f"{user}:{base64.b64encode(hashed).decode()}"


def stored(path: str, acl: Sequence[Acl] | None, identities: Collection[Identity]) -> str | None:
    """Return what a row keeps of a wanted ACL; raise InvalidAcl."""
    if acl is None or tuple(acl) == OPEN_ACL:
        return None
    entries = dict.fromkeys(entry for requested in acl for entry in _resolved(path, requested, identities))
    if not entries:
        raise InvalidAcl(path)
    return json.dumps([(entry.scheme, entry.id, entry.permissions) for entry in entries])


def decode(text: str | None) -> tuple[Acl, ...]:
    if text is None:
        return OPEN_ACL
    return tuple(Acl(scheme, name, Permission(bits)) for scheme, name, bits in json.loads(text))


def check(path: str, text: str | None, permissions: Permission, identities: Collection[Identity]) -> None:
    """Raise NotPermitted unless a row's ACL gives one of the wanted permissions to one of the identities."""
    if text is None or SUPER in identities:
        return
    for entry in decode(text):
        if entry.permissions & permissions and _matches(entry, identities):
            return
    raise NotPermitted(path)


def _resolved(path: str, entry: Acl, identities: Collection[Identity]) -> list[Acl]:
    match entry.scheme:
        case "auth":
            acls = [Acl(scheme, name, entry.permissions) for scheme, name in identities if scheme == "digest"]
            if not acls:
                raise InvalidAcl(path)
            return acls
        case "world" if entry.id == "anyone":
            return [entry]
        case "digest" if entry.id.count(":") == 1:
            return [entry]
        case "ip" if _network(entry.id) is not None:
            return [entry]
    raise InvalidAcl(path)


def _matches(entry: Acl, identities: Collection[Identity]) -> bool:
    if entry.scheme == "world":
        return True
    if entry.scheme == "ip":
        network = _network(entry.id)
        addresses = (ipaddress.ip_address(name) for scheme, name in identities if scheme == "ip")
        return network is not None and any(address in network for address in addresses)
    return (entry.scheme, entry.id) in identities


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
