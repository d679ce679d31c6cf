"""Reading of a setting's text, and the known name that resembles an unknown one. Clients need no table of a broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pylogbroker.config.setting import Setting
from pylogbroker.config.value_kinds import NotAccepted, Value
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    import difflib
else:
    difflib = on_first_use("difflib")

_VALUE_BYTES_MAX: Final = 0x7FFF
"""Kafka's limit: clients could not be sent a longer value."""

_NAME_MAX: Final = 100


def parse(setting: Setting, text: str) -> Value:
    """Raise ConfigError, which names setting, text and expected values."""
    size = len(text.encode(errors="replace"))
    if size > _VALUE_BYTES_MAX:
        raise ConfigError(
            f"{setting.name}: a value of {size} bytes is not accepted; expected at most {_VALUE_BYTES_MAX}"
        )
    try:
        return setting.kind.parse(text)
    except NotAccepted as error:
        raise ConfigError(_not_accepted(setting, text, str(error))) from None
    except ValueError:
        raise ConfigError(_not_accepted(setting, text, f"expected {setting.kind.expected}")) from None


def _not_accepted(setting: Setting, text: str, reason: str) -> str:
    shown = "this value" if setting.sensitive else repr(text)
    return f"{setting.name}: {shown} is not accepted; {reason}"


def closest(name: str, settings: Iterable[str], similarity_min: float = 0.6) -> str | None:
    """Return the most similar known name, if any; equal names have similarity 1."""
    if len(name) > _NAME_MAX:  # comparing it would take long
        return None
    return next(iter(difflib.get_close_matches(name, list(settings), n=1, cutoff=similarity_min)), None)
