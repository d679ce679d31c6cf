"""States of a connection until its client is authenticated, or is again (KIP-43, KIP-152, KIP-368).

START      ApiVersions       --> VERSIONS
START, VERSIONS
           SaslHandshake 0   --> RAW       tokens without headers follow
           SaslHandshake 1   --> REQUESTS  SaslAuthenticate follows, with a token
RAW, REQUESTS
           tokens            --> DONE      if the mechanism has a user
all        anything else     --> FAILED

A client that authenticates again must be the same user, by the same mechanism, and send requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

import attrs


class AuthenticationFailed(Exception):
    """The text is for the log of the side that raises it, not for the other side."""


class IllegalState(AuthenticationFailed):
    """A request does not fit the state of the authentication."""


class Mechanism(Protocol):
    user: str | None
    """Set once the client has proved that it is this user."""

    @property
    def expires_ms(self) -> int | None:
        """Time at which the proof ends, if it does."""

    @property
    def by_token(self) -> bool:
        """True if the client has proved that it has a delegation token of the user."""

    def respond(self, token: bytes, /) -> bytes:
        """Return the answer to a client's token; raise AuthenticationFailed. May take milliseconds."""


class State(Enum):
    START = 1
    VERSIONS = 2
    REQUESTS = 3
    RAW = 4
    DONE = 5
    FAILED = 6


@attrs.define
class Authentication:
    """State of one connection; `mechanisms` makes those that are enabled.

    `identity` is the mechanism and the user of a client that authenticates again.
    """

    mechanisms: Mapping[str, Callable[[], Mechanism]]
    identity: tuple[str, str] | None = None
    state: State = State.START
    mechanism: str = ""
    _server: Mechanism | None = None

    @property
    def user(self) -> str | None:
        return self._server.user if self._server is not None and self.state is State.DONE else None

    @property
    def expires_ms(self) -> int | None:
        """Time at which the client's proof ends; None if it does not."""
        return self._server.expires_ms if self._server is not None and self.state is State.DONE else None

    @property
    def by_token(self) -> bool:
        return self._server is not None and self._server.by_token

    @property
    def failure_text(self) -> str:
        """Text for the client, which does not say whether the user exists."""
        cause = f"invalid credentials with SASL mechanism {self.mechanism}"
        return f"Authentication failed during authentication due to {cause}"

    def versions_asked(self) -> None:
        """Take ApiVersions, of a version that is known."""
        self._expect(State.START)
        self.state = State.VERSIONS

    def begin(self, mechanism: str, version: int) -> bool:
        """Take SaslHandshake; return False if the mechanism is not enabled."""
        self._expect(State.START, State.VERSIONS)
        if self.identity is not None and not version:
            self.state = State.FAILED
            raise IllegalState("tokens without headers cannot authenticate again")
        make = self.mechanisms.get(mechanism)
        if make is None:
            self.state = State.FAILED
            return False
        self._server, self.mechanism = make(), mechanism
        self.state = State.REQUESTS if version else State.RAW
        return True

    def respond(self, token: bytes) -> bytes:
        """Return the answer to a token; raise AuthenticationFailed. May take milliseconds: call it in a thread."""
        self._expect(State.REQUESTS, State.RAW)
        if self._server is None:
            raise AuthenticationFailed("no mechanism was chosen")
        try:
            answer = self._server.respond(token)
            if self._server.user is not None:
                self._check_identity((self.mechanism, self._server.user))
        except AuthenticationFailed:
            self.state = State.FAILED
            raise
        if self._server.user is not None:
            self.state = State.DONE
        return answer

    def attempt(self, token: bytes) -> bytes | AuthenticationFailed:
        """Return what `respond` does, or the failure as a value.

        An exception and the frames of the thread that raises it form a cycle. In a flood of wrong passwords, to collect
        many of them takes milliseconds.
        """
        try:
            return self.respond(token)
        except AuthenticationFailed as failure:
            return type(failure)(*failure.args)

    def _check_identity(self, identity: tuple[str, str]) -> None:
        if self.identity is not None and self.identity != identity:
            raise AuthenticationFailed("the client authenticates again as another user, or by another mechanism")

    def _expect(self, *states: State) -> None:
        if self.state not in states:
            self.state = State.FAILED
            raise IllegalState("the request does not fit the state of the authentication")
