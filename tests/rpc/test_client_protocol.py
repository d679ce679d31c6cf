"""Versions and features that a connection's negotiation finds."""

from __future__ import annotations

import pytest

from pylogbroker.rpc.client_protocol import ClientProtocol
from pylogbroker.wire import SUPPORTED, Request, UnsupportedVersion
from pylogbroker.wire.api_table import APIS, LAST_IN_3_9
from pylogbroker.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from pylogbroker.wire.messages.end_txn import EndTxnRequest

LACKING = [APIS[module][0] for module, version in LAST_IN_3_9.items() if version < 0]


def negotiated(last: int, **levels: int) -> ClientProtocol:
    """Return a protocol whose broker has EndTxn up to a version, and features of these levels."""
    protocol = ClientProtocol("broker", "client")
    features = [FinalizedFeatureKey(name, level, level) for name, level in levels.items()]
    protocol.handle_response(
        ApiVersionsResponse(api_keys=[ApiVersion(EndTxnRequest.api_key, 0, last)], finalized_features=features)
    )
    return protocol


def test_versions_that_kafka_3_9_does_not_have_are_used_only_by_name() -> None:
    """They do more than older ones: an EndTxn 5 raises the epoch, which a caller has to know."""
    protocol = negotiated(5)
    assert protocol.version_of(EndTxnRequest) == 4
    [frame] = protocol.encode(EndTxnRequest("id")).chunks
    assert frame[6:8] == b"\0\4"
    [frame] = protocol.encode(EndTxnRequest("id"), 5).chunks
    assert frame[6:8] == b"\0\5"


@pytest.mark.parametrize(("last", "version"), [(4, 5), (9, 6)])
def test_versions_that_one_side_does_not_have(last: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion, match=f"does not support EndTxn v{version}"):
        negotiated(last).encode(EndTxnRequest("id"), version)


def test_levels_of_features() -> None:
    protocol = negotiated(5, lights=2)
    assert (protocol.feature_level("lights"), protocol.feature_level("others")) == (2, 0)
    assert ClientProtocol("broker", "client").feature_level("lights") == 0


@pytest.mark.parametrize("key", LACKING)
def test_an_api_that_kafka_3_9_lacks_is_sent_in_its_newest_version(key: int) -> None:
    kind: type[Request] = SUPPORTED[key][0]
    protocol = ClientProtocol("broker", "client")
    protocol.assume_versions({key: kind.versions.last})
    encoded = protocol.encode(kind())
    assert encoded.name == kind.__name__.removesuffix("Request")
    [first, *_] = encoded.chunks
    assert first[4:8] == key.to_bytes(2, "big") + kind.versions.last.to_bytes(2, "big")
