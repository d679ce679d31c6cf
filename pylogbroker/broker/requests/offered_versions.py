"""Versions of each API that this broker offers: the declared ones, or those of Kafka 3.9 where no handler has more."""

from __future__ import annotations

from typing import Final

import attrs

from pylogbroker.wire import SUPPORTED, Versions
from pylogbroker.wire.api_table import LAST_IN_3_9

_SERVED_AS_IN_4_4: Final[frozenset[str]] = frozenset()
"""Modules of APIs whose handlers know all declared versions."""


def offered_versions(api_key: int) -> Versions:
    declared = SUPPORTED.declared[api_key]
    if declared.module in _SERVED_AS_IN_4_4:
        return declared.versions
    return attrs.evolve(declared.versions, last=LAST_IN_3_9.get(declared.module, declared.versions.last))
