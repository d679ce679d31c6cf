"""KraftRegistration, heartbeats and controlled shutdown of a broker, answer by answer."""

from __future__ import annotations

from uuid import UUID

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.kraft.registration import KraftRegistration, RegisteredIdentity, RegistrationState
from pylogbroker.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from pylogbroker.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from pylogbroker.wire.metadata_records import BrokerEndpoint, FeatureRange

IDENTITY = RegisteredIdentity(
    9,
    "cluster",
    UUID(int=5),
    [BrokerEndpoint("PLAINTEXT", "here", 9092, 0)],
    [FeatureRange("metadata.version", 7, 33)],
    "rack",
    [UUID(int=70)],
)


def registered(epoch: int = 20) -> KraftRegistration:
    registration = KraftRegistration(IDENTITY)
    registration.registered(BrokerRegistrationResponse(broker_epoch=epoch))
    return registration


def heartbeat(registration: KraftRegistration, published: int, **answer: object) -> BrokerHeartbeatRequest:
    """Send the next heartbeat, and take an answer to it."""
    request = registration.request(published)
    assert isinstance(request, BrokerHeartbeatRequest)
    registration.heard(request, BrokerHeartbeatResponse(**answer))  # type: ignore[arg-type]
    return request


def test_a_broker_registers_with_what_it_is() -> None:
    request = KraftRegistration(IDENTITY, previous_epoch=12).request(-1)
    assert isinstance(request, BrokerRegistrationRequest)
    assert (request.broker_id, request.cluster_id, request.incarnation_id) == (9, "cluster", UUID(int=5))
    assert (request.rack, request.log_dirs, request.previous_broker_epoch) == ("rack", [UUID(int=70)], 12)


def test_a_broker_asks_to_be_unfenced_once_its_image_has_its_registration() -> None:
    registration = registered(epoch=20)
    assert heartbeat(registration, 19, is_fenced=True).want_fence
    assert registration.state is RegistrationState.FENCED
    request = heartbeat(registration, 20, is_fenced=False)
    assert (request.want_fence, request.broker_epoch, request.current_metadata_offset) == (False, 20, 20)
    assert registration.state is RegistrationState.ACTIVE
    heartbeat(registration, 20, is_fenced=True)
    assert registration.state is RegistrationState.FENCED


def test_another_incarnation_is_waited_for() -> None:
    registration = KraftRegistration(IDENTITY)
    duplicate = BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    assert registration.registered(duplicate) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert registration.state is RegistrationState.REGISTERING


@pytest.mark.parametrize("code", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNSUPPORTED_VERSION])
def test_a_rejected_broker_has_the_reason(code: ErrorCode) -> None:
    registration = KraftRegistration(IDENTITY)
    registration.registered(BrokerRegistrationResponse(error_code=code))
    assert registration.state is RegistrationState.REJECTED
    assert code.name in registration.rejection
    assert registration.request(0) is None


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
def test_a_lost_registration_is_made_again(code: ErrorCode) -> None:
    registration = registered()
    heartbeat(registration, 20, is_fenced=False)
    heartbeat(registration, 20, error_code=code)
    assert registration.state is RegistrationState.REGISTERING
    request = registration.request(20)
    assert isinstance(request, BrokerRegistrationRequest)
    assert request.previous_broker_epoch == 20


def test_answers_to_an_earlier_registration_do_not_count() -> None:
    registration = registered(epoch=20)
    late = registration.request(20)
    assert isinstance(late, BrokerHeartbeatRequest)
    registration.heard(late, BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    registration.registered(BrokerRegistrationResponse(broker_epoch=30))
    registration.heard(late, BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    registration.registered(BrokerRegistrationResponse(broker_epoch=25))
    assert (registration.state, registration.epoch) == (RegistrationState.FENCED, 30)


def test_a_controlled_shutdown_waits_until_the_leaderships_have_moved() -> None:
    registration = registered()
    heartbeat(registration, 20, is_fenced=False)
    registration.leave()
    assert heartbeat(registration, 21, is_fenced=False).want_shut_down
    assert registration.state is RegistrationState.LEAVING
    heartbeat(registration, 22, is_fenced=False, should_shut_down=True)
    assert registration.state is RegistrationState.LEFT
    assert registration.request(22) is None


def test_a_broker_that_is_not_registered_leaves_at_once() -> None:
    registration = KraftRegistration(IDENTITY)
    registration.leave()
    registration.registered(BrokerRegistrationResponse(broker_epoch=30))
    assert registration.state is RegistrationState.LEFT


def test_failed_directories_are_reported() -> None:
    registration = registered()
    registration.offline_directories.append(UUID(int=70))
    assert heartbeat(registration, 20).offline_log_dirs == [UUID(int=70)]
