"""Requests for credentials of SCRAM: checks with the errors and texts of Kafka 3.9 in ZooKeeper mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.sasl.stored_credentials import MECHANISM_NUMBERS, encode
from pylogbroker.security.sasl.users import ITERATIONS_MAX, ITERATIONS_MIN, ScramKeys
from pylogbroker.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

USERS_MAX: Final = 1000
"""Users that one request may name."""
NO_NAME: Final = "Username must not be empty"
_NAME_CHARACTERS_MAX: Final = 1000
_BYTES_MAX: Final = 1024
"""Largest salt, and largest salted password."""


@attrs.define
class UserChange:
    """Changes of one user: keys to set, and mechanisms to delete. `error` is that of an invalid change."""

    deleted: list[str] = attrs.field(factory=list)
    new: list[ScramKeys] = attrs.field(factory=list)
    error: KafkaError | None = None

    def applied(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the new settings of the user; raise RESOURCE_NOT_FOUND."""
        after = dict(settings)
        for mechanism in self.deleted:
            if after.pop(mechanism, None) is None:
                raise KafkaError(
                    "Attempt to delete a user credential that does not exist", ErrorCode.RESOURCE_NOT_FOUND
                )
        return after | {keys.mechanism: encode(keys) for keys in self.new}

    def __str__(self) -> str:
        parts = [f"{keys.mechanism} set" for keys in self.new] + [f"{mechanism} deleted" for mechanism in self.deleted]
        return ", ".join(parts)


def check_number_of_users(count: int) -> None:
    """Raise POLICY_VIOLATION for more than `USERS_MAX`."""
    if count > USERS_MAX:
        raise KafkaError(
            f"One request cannot name more than {USERS_MAX} users; send several", ErrorCode.POLICY_VIOLATION
        )


def named_users(request: AlterUserScramCredentialsRequest) -> dict[str, None]:
    """Return the users of a request, each once, in order."""
    return dict.fromkeys(
        [deletion.name for deletion in request.deletions] + [upsertion.name for upsertion in request.upsertions]
    )


def user_changes(request: AlterUserScramCredentialsRequest) -> dict[str, UserChange]:
    """Return the changes of each user."""
    changes = {name: UserChange() for name in named_users(request)}
    try:
        check_number_of_users(len(changes))
    except KafkaError as error:
        return dict.fromkeys(changes, UserChange(error=error))
    seen: set[tuple[str, int]] = set()
    every: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    for credential in every:
        change = changes[credential.name]
        if (credential.name, credential.mechanism) in seen:
            change.error = change.error or KafkaError(
                "A user credential cannot be altered twice in the same request", ErrorCode.DUPLICATE_RESOURCE
            )
        seen.add((credential.name, credential.mechanism))
    for credential in every:
        try:
            _add(changes[credential.name], credential)
        except KafkaError as error:
            changes[credential.name].error = error
    return changes


def _add(change: UserChange, credential: ScramCredentialDeletion | ScramCredentialUpsertion) -> None:
    _check_name(credential.name)
    mechanism = MECHANISM_NUMBERS.get(credential.mechanism)
    if mechanism is None:
        raise KafkaError("Unknown SCRAM mechanism", ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    if isinstance(credential, ScramCredentialDeletion):
        change.deleted.append(mechanism)
        return
    if credential.iterations < ITERATIONS_MIN:
        raise _unacceptable("Too few iterations")
    if credential.iterations > ITERATIONS_MAX:
        raise _unacceptable("Too many iterations")
    salt, salted = bytes(credential.salt), bytes(credential.salted_password)
    if not (salt and salted) or max(len(salt), len(salted)) > _BYTES_MAX:
        raise _unacceptable(f"Salt and salted password must have 1 to {_BYTES_MAX} bytes")
    change.new.append(ScramKeys.of_salted(mechanism, salted, salt, credential.iterations))


def _check_name(name: str) -> None:
    if not name:
        raise _unacceptable(NO_NAME)
    if name in (".", "..") or len(name) > _NAME_CHARACTERS_MAX:
        raise _unacceptable(f"Username must have at most {_NAME_CHARACTERS_MAX} characters, and not be . or ..")


def _unacceptable(detail: str) -> KafkaError:
    return KafkaError(detail, ErrorCode.UNACCEPTABLE_CREDENTIAL)
