"""Settings of Kafka that this broker accepts, stores and shows, but does not use.

`kafka_settings.tsv` lists those of Kafka 3.9 and 4.x: name, type, default, mode, bounds. Values are validated like
Kafka's. The reasons are in `effect_reasons`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from pylogbroker.config import effect_reasons
from pylogbroker.config.setting import Importance, Mode, Scope, Setting
from pylogbroker.config.value_kinds import ConfigType, ValueKind

FILE_NAME = "kafka_settings.tsv"


def _read() -> Iterator[Setting]:
    text = files("pylogbroker.config").joinpath(FILE_NAME).read_text("utf-8")
    return (_setting(*line.split("\t")) for line in text.splitlines() if not line.startswith("#"))


def _setting(
    scope: str,
    name: str,
    type_name: str,
    default: str,
    importance: str,
    mode: str,
    least: str,
    most: str,
    internal: str,
) -> Setting:
    kind = ValueKind(ConfigType[type_name], low=_bound(least), high=_bound(most))
    reason = effect_reasons.reason_to_reject(name) or effect_reasons.reason_without_effect(name) or ""
    return Setting(
        name=name,
        kind=kind,
        default=None if default == "null" else kind.parse(default),
        importance=Importance(importance.lower()),
        doc=f"Has no effect: {reason}.",
        scope=Scope(scope),
        mode=Mode(mode) if scope == Scope.BROKER else Mode.READ_ONLY,
        internal=internal == "internal",
        no_effect=reason,
    )


def _bound(text: str) -> float | None:
    return None if not text else float(text) if "." in text else int(text)


UNUSED_SETTINGS: tuple[Setting, ...] = tuple(_read())
