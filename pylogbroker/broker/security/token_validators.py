"""Validators of OAUTHBEARER's tokens for each listener, from settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from pylogbroker.broker.runtime.resources import PeriodicCall, Runtime
from pylogbroker.broker.security.logins import login_of
from pylogbroker.broker.security.token_keys import TokenKeys
from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.config.broker_values import ListenerValues
from pylogbroker.config.mechanisms import OAUTHBEARER
from pylogbroker.errors import ConfigError
from pylogbroker.extras import required_by
from pylogbroker.features import on_first_use
from pylogbroker.java.text import is_digits
from pylogbroker.security.sasl.oauthbearer import TokenValidator, UnsecuredValidator

if TYPE_CHECKING:
    from pylogbroker.security.sasl import signed_tokens
else:
    signed_tokens = on_first_use("pylogbroker.security.sasl.signed_tokens")

log = Logger()

_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
_UNSECURED: Final = "OAuthBearerUnsecuredValidatorCallbackHandler"
_PREFIX: Final = "unsecuredValidator"


def accepts_unsecured(config: BrokerConfig, listener: Listener) -> bool:
    """Return whether a listener accepts tokens that nobody has signed."""
    return (_values(config, listener).sasl_server_callback_handler_class or "").endswith(f".{_UNSECURED}")


def check_tokens(config: BrokerConfig, listener: Listener) -> None:
    """Raise ConfigError if tokens cannot be validated."""
    values = _values(config, listener)
    if accepts_unsecured(config, listener):
        _unsecured(config, listener, lambda: 0)
    elif not values.sasl_oauthbearer_jwks_endpoint_url:
        raise ConfigError(
            f"{_URL}: listener {listener.name} offers OAUTHBEARER, and needs the keys of the issuer of tokens: set it "
            "to file:///PATH or a URL"
        )


def _values(config: BrokerConfig, listener: Listener) -> ListenerValues:
    return config.of_listener(listener, OAUTHBEARER)


@attrs.define
class _Reports:
    """Logs a line unless it is the last one again: keys are often read again, and seldom change."""

    _url: str
    _last: str = ""

    def __call__(self, line: str) -> None:
        if line != self._last:
            self._last = line
            log.warn("{url}: {line}", url=self._url, line=line)


@attrs.define(eq=False, repr=False)
class TokenValidators:
    """Validators by the names of listeners; keys are read again at the listener's interval."""

    _runtime: Runtime
    _found: dict[str, TokenValidator] = attrs.field(factory=dict, init=False)
    _keys: dict[str, TokenKeys[Any]] = attrs.field(factory=dict, init=False)
    _refreshes: list[PeriodicCall] = attrs.field(factory=list, init=False)

    @property
    def by_listener(self) -> Mapping[str, TokenValidator]:
        return self._found

    async def open(self, config: BrokerConfig, listener: Listener) -> None:
        """Make a listener's validator; raise ConfigError if keys cannot be read."""
        values = _values(config, listener)
        if accepts_unsecured(config, listener):
            self._found[listener.name] = _unsecured(config, listener, self._runtime.now_ms)
            return
        with required_by(f"OAUTHBEARER on the listener {listener.name}"):
            parse_keys = signed_tokens.parse_keys
        url = values.text(_URL)
        if url not in self._keys:
            parse = partial(parse_keys, report=_Reports(url))
            self._keys[url] = await self._runtime.in_thread(TokenKeys.open, url, _URL, parse)
            self._refresh(self._keys[url], values.integer("sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000)
        self._found[listener.name] = _signed(values, self._keys[url], self._runtime.now_ms)

    def stop(self) -> None:
        for refresh in self._refreshes:
            if refresh.running:
                refresh.stop()

    def _refresh(self, keys: TokenKeys[Any], seconds: float) -> None:
        def refresh() -> Deferred[None]:
            return self._runtime.in_thread(keys.read_again)

        call = PeriodicCall(self._runtime.clock, refresh)
        call.start(seconds, now=False)
        self._refreshes.append(call)


def _signed(values: ListenerValues, keys: TokenKeys[Any], now_ms: Callable[[], int]) -> TokenValidator:
    return signed_tokens.SignedValidator(
        keys,
        now_ms,
        values.sasl_oauthbearer_expected_issuer,
        values.texts(_AUDIENCE) if values[_AUDIENCE] is not None else (),
        values.sasl_oauthbearer_sub_claim_name,
        values.sasl_oauthbearer_clock_skew_seconds,
    )


def _unsecured(config: BrokerConfig, listener: Listener, now_ms: Callable[[], int]) -> UnsecuredValidator:
    setting, login = login_of(config, listener, OAUTHBEARER) or ("", None)
    options = {} if login is None else login.options

    def option(name: str, default: str) -> str:
        return options.get(f"{_PREFIX}{name}", "").strip() or default

    skew = option("AllowableClockSkewMs", "0")
    if not is_digits(skew):
        raise ConfigError(f"{setting}: {_PREFIX}AllowableClockSkewMs: {skew!r} is not accepted; expected milliseconds")
    scopes = frozenset(option("RequiredScope", "").split())
    return UnsecuredValidator(
        now_ms, option("PrincipalClaimName", "sub"), option("ScopeClaimName", "scope"), scopes, int(skew)
    )
