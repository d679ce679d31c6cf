"""Table of all settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import attrs

from pylogbroker.config.access_settings import ACCESS_SETTINGS
from pylogbroker.config.archive_settings import ARCHIVE_SETTINGS
from pylogbroker.config.cleaner_settings import CLEANER_SETTINGS
from pylogbroker.config.client_settings import CLIENT_SETTINGS
from pylogbroker.config.cluster_settings import CLUSTER_SETTINGS
from pylogbroker.config.group_settings import GROUP_SETTINGS
from pylogbroker.config.http_settings import HTTP_SETTINGS
from pylogbroker.config.log_settings import LOG_SETTINGS
from pylogbroker.config.network_settings import NETWORK_SETTINGS
from pylogbroker.config.quota_settings import QUOTA_SETTINGS
from pylogbroker.config.registry_settings import REGISTRY_SETTINGS
from pylogbroker.config.security_settings import SECURITY_SETTINGS
from pylogbroker.config.setting import Scope, Setting
from pylogbroker.config.share_coordinator_settings import SHARE_COORDINATOR_SETTINGS
from pylogbroker.config.share_settings import SHARE_SETTINGS
from pylogbroker.config.streams_settings import STREAMS_SETTINGS
from pylogbroker.config.token_settings import TOKEN_SETTINGS
from pylogbroker.config.topic_settings import TOPIC_SETTINGS
from pylogbroker.config.transaction_settings import TRANSACTION_SETTINGS
from pylogbroker.config.unused_settings import UNUSED_SETTINGS

_OF_ONE_LISTENER = re.compile(
    r"listener\.name\.[^.]+\.(?:[^.]+\.)??"
    r"((?:ssl|sasl)\..+|principal\.builder\.class|connections\.max\.reauth\.ms|max\.connection\.creation\.rate|max\.connections)"
)


def _by_name(settings: Iterable[Setting]) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings}


BROKER: Mapping[str, Setting] = _by_name(
    (
        *NETWORK_SETTINGS,
        *HTTP_SETTINGS,
        *REGISTRY_SETTINGS,
        *SECURITY_SETTINGS,
        *LOG_SETTINGS,
        *CLEANER_SETTINGS,
        *ARCHIVE_SETTINGS,
        *CLUSTER_SETTINGS,
        *CLIENT_SETTINGS,
        *GROUP_SETTINGS,
        *SHARE_SETTINGS,
        *STREAMS_SETTINGS,
        *TRANSACTION_SETTINGS,
        *SHARE_COORDINATOR_SETTINGS,
        *ACCESS_SETTINGS,
        *QUOTA_SETTINGS,
        *TOKEN_SETTINGS,
        *(setting for setting in UNUSED_SETTINGS if setting.scope is Scope.BROKER),
    )
)
TOPIC: Mapping[str, Setting] = _by_name(
    (*TOPIC_SETTINGS, *(setting for setting in UNUSED_SETTINGS if setting.scope is Scope.TOPIC))
)
SETTINGS: tuple[Setting, ...] = tuple(
    sorted((*BROKER.values(), *TOPIC.values()), key=lambda setting: bool(setting.no_effect))
)
"""Those without effect come last."""


def broker_setting(name: str) -> Setting | None:
    """Return a broker's setting, or one of a listener: `listener.name.<listener>.ssl.key.password`."""
    declared = BROKER.get(name)
    if declared is None and (match := _OF_ONE_LISTENER.fullmatch(name)):
        common = BROKER.get(match[1])
        return None if common is None else attrs.evolve(common, name=name)
    return declared


def notes_without_effect(
    texts: Mapping[str, str], before: Mapping[str, str], find: Callable[[str], Setting | None]
) -> list[str]:
    """Return a note for each changed setting without effect."""
    changed = (find(name) for name, text in texts.items() if before.get(name) != text)
    return [f"{setting.name} ({setting.no_effect})" for setting in changed if setting is not None and setting.no_effect]
