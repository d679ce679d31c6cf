"""The broker's settings for delegation tokens (KIP-48)."""

from __future__ import annotations

from pylogbroker.config.setting import Setting, Synonym, fixed
from pylogbroker.config.value_kinds import LONG, PASSWORD, at_least

_ALIAS = "delegation.token.master.key"
_HOUR_MS = 3_600_000

TOKEN_SETTINGS: tuple[Setting, ...] = (
    fixed(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        "medium",
        "Secret key of delegation tokens, the same in all brokers of a cluster. Without it there are no tokens. With "
        "another one, the tokens before cannot be used.",
        synonyms=(Synonym(_ALIAS),),
    ),
    fixed(_ALIAS, PASSWORD, None, "medium", "Older name of delegation.token.secret.key."),
    fixed(
        "delegation.token.max.lifetime.ms",
        at_least(1, LONG),
        7 * 24 * _HOUR_MS,
        "medium",
        "Longest lifetime of a delegation token, however often it is renewed.",
    ),
    fixed(
        "delegation.token.expiry.time.ms",
        at_least(1, LONG),
        24 * _HOUR_MS,
        "medium",
        "Time after which a delegation token expires unless it is renewed, if the request names no time.",
    ),
    fixed(
        "delegation.token.expiry.check.interval.ms",
        at_least(1, LONG),
        _HOUR_MS,
        "low",
        "How often the controller removes delegation tokens that have expired. Nobody can connect by them meanwhile.",
    ),
)
