"""Versions in which tests send requests if they do not say: the newest offered ones that name topics."""

from __future__ import annotations

from pylogbroker.broker.requests.offered_versions import offered_versions

_LAST_BY_NAME = {0: 12, 8: 9, 9: 9, 28: 5}


def newest(api_key: int) -> int:
    return min(offered_versions(api_key).last, _LAST_BY_NAME.get(api_key, 99))
