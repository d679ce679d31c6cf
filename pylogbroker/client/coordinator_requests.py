"""FindCoordinator, in the forms of its versions."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from pylogbroker.errors import KafkaError
from pylogbroker.rpc.errors import raise_for
from pylogbroker.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_KEY_TYPE_VERSION: Final = 1
_SEVERAL_KEYS_VERSION: Final = 4


_COORDINATORS: Final = 2**31 - 1
"""Coordinators have connections of their own, whose numbers are this less those of the brokers."""


class CoordinatorType(IntEnum):
    """Numbers of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


def coordinator_node(node_id: int) -> int:
    return _COORDINATORS - node_id


def broker_of(node_id: int) -> int:
    return _COORDINATORS - node_id if node_id > _COORDINATORS // 2 else node_id


def find_coordinator_request(key: str, kind: CoordinatorType, version: int) -> FindCoordinatorRequest:
    request = FindCoordinatorRequest()
    if version >= _KEY_TYPE_VERSION:
        request.key_type = kind
    if version >= _SEVERAL_KEYS_VERSION:
        request.coordinator_keys = [key]
    else:
        request.key = key
    return request


def coordinator_of(response: FindCoordinatorResponse, version: int) -> Coordinator:
    """Return the coordinator of the one key; raise KafkaError."""
    coordinator = Coordinator(
        "", response.node_id, response.host, response.port, response.error_code, response.error_message
    )
    if version >= _SEVERAL_KEYS_VERSION:
        if len(response.coordinators) != 1:
            raise KafkaError("the FindCoordinator response has the wrong number of keys: one was requested")
        [coordinator] = response.coordinators
    raise_for(coordinator.error_code, coordinator.error_message)
    return coordinator
