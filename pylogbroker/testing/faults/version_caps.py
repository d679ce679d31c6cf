"""Caps of API versions: the broker looks like an older release, or lacks an API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.services import Services
from pylogbroker.net.routes import NotOffered, Route, Routes
from pylogbroker.testing.faults.criteria import Call
from pylogbroker.testing.faults.handlers import Work
from pylogbroker.testing.faults.names import api_key, api_name
from pylogbroker.testing.faults.releases import oldest_of, versions_of
from pylogbroker.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

Cap = int | tuple[int, int] | None
"""Newest version, or oldest and newest; None: the API is not offered."""

_UNKNOWN_VERSION: Final = 0x7FFF
_NO_VERSION: Final = (0, -1)
_NEEDED: Final = {"transaction.version": {"Produce": 12, "EndTxn": 5, "TxnOffsetCommit": 5}}
"""Versions that clients use if a feature is on: without one of them, the feature has to be off."""


@attrs.define(eq=False, repr=False)
class VersionCaps:
    """Oldest and newest version by API key; others are not capped."""

    _caps: dict[int, tuple[int, int]] = attrs.field(factory=dict, init=False)

    def cap(self, release: str | None, by_api: Mapping[str, Cap]) -> bool:
        """Replace the caps: those of a release, then others by API. Raise ValueError for unknown names.

        Returns whether clients may have adapted to the former caps, which no longer hold.
        """
        caps: dict[int, tuple[int, int]] = {}
        if release is not None:
            newest = versions_of(release)
            oldest = oldest_of(release)
            caps = {key: (oldest.get(key, 0), newest.get(key, -1)) for key in range(max(newest) + 50)}
        for api, cap in by_api.items():
            caps[api_key(api)] = _NO_VERSION if cap is None else (0, cap) if isinstance(cap, int) else cap
        former, self._caps = self._caps, caps
        return bool(former) and former != caps

    def offers(self, key: int, version: int) -> bool:
        first, last = self._caps.get(key, (0, _UNKNOWN_VERSION))
        return first <= version <= last

    def limit(self, answer: ApiVersionsResponse) -> ApiVersionsResponse:
        """Leave out of an answer what is not offered."""
        limited = [self._limited(api) for api in answer.api_keys]
        answer.api_keys = [api for api in limited if api.min_version <= api.max_version]
        off = [
            feature
            for feature, versions in _NEEDED.items()
            if not all(self.offers(api_key(api), version) for api, version in versions.items())
        ]
        answer.supported_features = [feature for feature in answer.supported_features if feature.name not in off]
        answer.finalized_features = [feature for feature in answer.finalized_features if feature.name not in off]
        return answer

    def _limited(self, api: ApiVersion) -> ApiVersion:
        first, last = self._caps.get(api.api_key, (0, _UNKNOWN_VERSION))
        return ApiVersion(api.api_key, max(api.min_version, first), min(api.max_version, last))

    async def handle(self, call: Call, work: Work) -> Any:
        answer = await work(call)
        return self.limit(answer) if isinstance(answer, ApiVersionsResponse) else answer


class CappedRoutes(Routes):
    """Routes of a broker with caps: unknown versions end the connection, but for ApiVersions."""

    def __init__(self, apis: Sequence[Api], services: Services, caps: VersionCaps) -> None:
        super().__init__(apis, services)
        self._caps = caps

    def find(self, key: int, version: int) -> Route:
        if self._caps.offers(key, version):
            return super().find(key, version)
        if key == ApiVersionsRequest.api_key and self._caps.offers(key, 0):
            return self._unsupported()
        raise NotOffered(api_name(key), f"{api_name(key)} {version} is not offered, because of capped versions")

    def _unsupported(self) -> Route:
        route = super().find(ApiVersionsRequest.api_key, _UNKNOWN_VERSION)

        def handle(services: Any, context: Any, request: Any) -> ApiVersionsResponse:
            return self._caps.limit(route.handle(services, context, request))

        return attrs.evolve(route, handle=handle)
