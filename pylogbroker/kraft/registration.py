"""A broker's registration with KRaft's controllers, its heartbeats, and its controlled shutdown.

    state        begins with                       what the driver sends          next
    -----------  --------------------------------  -----------------------------  ------------------------------------
    registering  the start, STALE_BROKER_EPOCH,    BrokerRegistration             fenced, with a broker epoch; rejected,
                 BROKER_ID_NOT_REGISTERED                                         by a fatal error
    fenced       a broker epoch                    BrokerHeartbeat; asks to be    active, once an answer says so
                                                   unfenced when caught up with
                                                   its own registration
    active       an unfenced answer                BrokerHeartbeat                fenced, if an answer says so
    leaving      `leave`                           BrokerHeartbeat that wants     left, once an answer says that it
                                                   to shut down                   should

A registration that another incarnation still holds (DUPLICATE_BROKER_REGISTRATION) is tried again until the session of
that one has ended. Source: Kafka's class BrokerLifecycleManager, KIP-631.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.rpc.errors import code_of
from pylogbroker.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from pylogbroker.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from pylogbroker.wire.metadata_records import BrokerEndpoint, FeatureRange

_NO_EPOCH: Final = -1
FATAL: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the controllers are of another cluster: compare cluster.id in their "
    "meta.properties with that in log.dirs, and format empty directories with theirs",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster has a feature at a level that this release does not have",
    ErrorCode.INVALID_REGISTRATION: "the controllers reject the listeners, features or log directories",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "its principal needs CLUSTER_ACTION on the cluster",
}
"""Errors after which a broker cannot be a member, and what to do."""
_REGISTERS_AGAIN: Final = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})


class RegistrationState(Enum):
    REGISTERING = "registering"
    FENCED = "fenced"
    ACTIVE = "active"
    LEAVING = "leaving"
    LEFT = "left"
    REJECTED = "rejected"


@attrs.frozen
class RegisteredIdentity:
    """Fields of this broker that the controllers learn; an incarnation is one life of its process."""

    broker_id: int
    cluster_id: str
    incarnation: UUID
    listeners: Sequence[BrokerEndpoint]
    features: Sequence[FeatureRange]
    rack: str | None
    directories: Sequence[UUID]


@attrs.define(eq=False, repr=False)
class KraftRegistration:
    """`rejection` says why the controllers do not take the broker, in state REJECTED."""

    _identity: RegisteredIdentity
    previous_epoch: int = _NO_EPOCH
    """Epoch of the last registration if that broker was stopped cleanly."""
    state: RegistrationState = attrs.field(default=RegistrationState.REGISTERING, init=False)
    epoch: int = attrs.field(default=_NO_EPOCH, init=False)
    rejection: str = attrs.field(default="", init=False)
    offline_directories: list[UUID] = attrs.field(factory=list, init=False)
    _is_leaving: bool = attrs.field(default=False, init=False)

    def leave(self) -> None:
        """Ask for a controlled shutdown with the next heartbeat; a broker that is not registered has left already."""
        self._is_leaving = True
        self.state = (
            RegistrationState.LEAVING
            if self.state in (RegistrationState.ACTIVE, RegistrationState.FENCED)
            else RegistrationState.LEFT
        )

    def request(self, published_offset: int) -> BrokerRegistrationRequest | BrokerHeartbeatRequest | None:
        """Return the next request, None if there is none; `published_offset` is that of the image's last record."""
        if self.state in (RegistrationState.LEFT, RegistrationState.REJECTED):
            return None
        if self.state is RegistrationState.REGISTERING:
            return self._registration()
        return BrokerHeartbeatRequest(
            self._identity.broker_id,
            self.epoch,
            published_offset,
            want_fence=published_offset < self.epoch,
            want_shut_down=self._is_leaving,
            offline_log_dirs=list(self.offline_directories),
        )

    def _registration(self) -> BrokerRegistrationRequest:
        identity = self._identity
        return BrokerRegistrationRequest(
            identity.broker_id,
            identity.cluster_id,
            identity.incarnation,
            list(identity.listeners),
            list(identity.features),
            identity.rack,
            log_dirs=list(identity.directories),
            previous_broker_epoch=self.previous_epoch,
        )

    def registered(self, answer: BrokerRegistrationResponse) -> ErrorCode:
        """Take the answer to a registration; return its error, after which the driver tries again."""
        code = code_of(answer.error_code)
        if self.state is not RegistrationState.REGISTERING:
            return code
        if code is ErrorCode.NONE:
            self.epoch = self.previous_epoch = answer.broker_epoch
            self.state = RegistrationState.FENCED
        elif code in FATAL:
            self.rejection = f"the controllers do not register this broker, {code.name}: {FATAL[code]}"
            self.state = RegistrationState.REJECTED
        return code

    def heard(self, request: BrokerHeartbeatRequest, answer: BrokerHeartbeatResponse) -> ErrorCode:
        """Take the answer to a heartbeat; return its error."""
        code = code_of(answer.error_code)
        if request.broker_epoch != self.epoch or self.state in (RegistrationState.LEFT, RegistrationState.REGISTERING):
            return code
        if code in _REGISTERS_AGAIN:
            self.epoch = _NO_EPOCH
            self.state = RegistrationState.LEFT if self._is_leaving else RegistrationState.REGISTERING
        elif code is ErrorCode.NONE and self._is_leaving:
            if answer.should_shut_down:
                self.state = RegistrationState.LEFT
        elif code is ErrorCode.NONE:
            self.state = RegistrationState.FENCED if answer.is_fenced else RegistrationState.ACTIVE
        return code
