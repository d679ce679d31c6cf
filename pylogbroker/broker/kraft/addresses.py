"""Addresses of the controllers: `controller.quorum.bootstrap.servers` and `controller.quorum.voters`.

controller.quorum.bootstrap.servers    host:port,host:port         any of them names the active controller
controller.quorum.voters               id@host:port,id@host:port   the whole quorum, if it never changes
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError
from pylogbroker.java.text import trim
from pylogbroker.rpc.settings import PORT_MAX, Address

_ADDRESS: Final = re.compile(
    r"(?:(?P<id>[0-9]{1,10})@)?(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^\[\]:/@\s]+)):(?P<port>[0-9]{1,5})"
)
_BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
_VOTERS: Final = "controller.quorum.voters"


@attrs.frozen
class QuorumAddresses:
    """`first` are asked in turn while no controller is known; `voters` has those whose ids are known, by id."""

    first: tuple[Address, ...]
    voters: Mapping[int, Address]

    @classmethod
    def of(cls, config: BrokerConfig) -> QuorumAddresses:
        """Raise ConfigError for texts that are no addresses."""
        voters = dict(_parse(_VOTERS, text, has_id=True) for text in config.controller_quorum_voters)
        bootstrap = [_parse(_BOOTSTRAP, text, has_id=False)[1] for text in config.controller_quorum_bootstrap_servers]
        return cls((*bootstrap, *voters.values()), voters)


def _parse(setting: str, text: str, *, has_id: bool) -> tuple[int, Address]:
    match = _ADDRESS.fullmatch(trim(text))
    if match is None or (match["id"] is not None) is not has_id or not 0 < int(match["port"]) <= PORT_MAX:
        expected = "id@host:port" if has_id else "host:port"
        raise ConfigError(f"{setting}: {text!r} is not accepted; expected {expected}, separated by commas")
    return int(match["id"] or -1), Address(match["ipv6"] or match["host"], int(match["port"]))
