"""The broker's settings for delegation tokens (KIP-48)."""

from __future__ import annotations

from pylogbroker.config.setting import Synonym, fixed, rows_of
from pylogbroker.config.value_kinds import LONG, PASSWORD, at_least
from pylogbroker.config.values import Values

_ALIAS = "delegation.token.master.key"
_HOUR_MS = 3_600_000


class TokenRows(Values):
    __slots__ = ()

    delegation_token_secret_key = fixed(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        "medium",
        "Secret key of delegation tokens, the same in all brokers of a cluster. Without it there are no tokens. With "
        "another one, the tokens before cannot be used.",
        synonyms=(Synonym(_ALIAS),),
    )
    delegation_token_master_key = fixed(_ALIAS, PASSWORD, None, "medium", "Older name of delegation.token.secret.key.")
    delegation_token_max_lifetime_ms = fixed(
        "delegation.token.max.lifetime.ms",
        at_least(1, LONG),
        7 * 24 * _HOUR_MS,
        "medium",
        "Longest lifetime of a delegation token, however often it is renewed.",
    )
    delegation_token_expiry_time_ms = fixed(
        "delegation.token.expiry.time.ms",
        at_least(1, LONG),
        24 * _HOUR_MS,
        "medium",
        "Time after which a delegation token expires unless it is renewed, if the request names no time.",
    )
    delegation_token_expiry_check_interval_ms = fixed(
        "delegation.token.expiry.check.interval.ms",
        at_least(1, LONG),
        _HOUR_MS,
        "low",
        "How often the controller removes delegation tokens that have expired. Nobody can connect by them meanwhile.",
    )


TOKEN_SETTINGS = rows_of(TokenRows)
