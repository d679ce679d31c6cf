"""The one table of every setting: what validates them, describes them and gives their defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from pylogbroker.config.cleaner_settings import CLEANER_SETTINGS
from pylogbroker.config.client_settings import CLIENT_SETTINGS
from pylogbroker.config.kinds import Value
from pylogbroker.config.log_settings import LOG_SETTINGS
from pylogbroker.config.network_settings import NETWORK_SETTINGS
from pylogbroker.config.setting import Setting
from pylogbroker.config.topic_settings import TOPIC_SETTINGS
from pylogbroker.config.transaction_settings import TRANSACTION_SETTINGS
from pylogbroker.errors import ConfigError


def _by_name(settings: Iterable[Setting]) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings}


BROKER: Mapping[str, Setting] = _by_name(
    (*NETWORK_SETTINGS, *LOG_SETTINGS, *CLEANER_SETTINGS, *CLIENT_SETTINGS, *TRANSACTION_SETTINGS)
)
TOPIC: Mapping[str, Setting] = _by_name(TOPIC_SETTINGS)
SETTINGS: tuple[Setting, ...] = (*BROKER.values(), *TOPIC.values())


def parse(setting: Setting, text: str) -> Value:
    """The value of a setting's text; ConfigError names the setting, the text and what is expected."""
    try:
        return setting.kind.parse(text)
    except ValueError:
        raise ConfigError(refusal(setting, text)) from None


def refusal(setting: Setting, text: str) -> str:
    """The sentence that refuses a value."""
    shown = "this value" if setting.sensitive else repr(text)
    return f"{setting.name}: {shown} is not accepted; expected {setting.kind.expected}"


def closest(name: str, settings: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known name that `name` may have been meant for; 1 is the likeness of equal names."""
    return next(iter(get_close_matches(name, list(settings), n=1, cutoff=likeness)), None)
