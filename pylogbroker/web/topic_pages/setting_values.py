"""Values of settings as people read and write them: times and sizes with units, limits that there are not.

| setting                | value               | shown    | in the field |
|------------------------|---------------------|----------|--------------|
| retention.ms           | 604800000           | 7 d      | 7d           |
| retention.ms           | -1                  | no limit | no limit     |
| segment.bytes          | 1073741824          | 1 GiB    | 1GiB         |
| flush.ms               | 9223372036854775807 | no limit | no limit     |
| max.message.bytes      | 1048588             | 1 MiB    | 1048588      |
"""

from __future__ import annotations

from typing import Final, Literal

from pylogbroker.config import TOPIC, ConfigType, Setting, durations
from pylogbroker.config.units import size_in_bytes
from pylogbroker.config.value_kinds import LONG_MAX
from pylogbroker.java.text import is_digits
from pylogbroker.web.formats import count_text, duration_text, size_text
from pylogbroker.web.router.values import whole_number

Unit = Literal["", "time", "size"]
_NO_LIMIT: Final = "no limit"
_WITHOUT_LIMIT: Final = {"retention.ms": -1, "retention.bytes": -1}
"""Values that stand for no limit; for other settings it is the largest number."""
_SIZE_UNITS: Final = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_TIME_UNITS: Final = ("d", "h", "m", "s")


def unit_of(name: str) -> Unit:
    """Return what a setting measures, by its name."""
    return "time" if name.endswith(".ms") else "size" if name.endswith(".bytes") else ""


def shown_value(name: str, text: str | None) -> str:
    """Return a value for people; other texts, and those that are no numbers, stay as they are."""
    if text is None:
        return "not shown"
    number = whole_number(text)
    if number is None:
        return text or "empty"
    if number == _limitless(name):
        return _NO_LIMIT
    unit = unit_of(name)
    if number < 0 or not unit:
        return count_text(number) if number >= 1000 else text
    return duration_text(number) if unit == "time" else size_text(number)


def raw_text(text: str) -> str:
    """Return a value as the broker takes it, a number with separators."""
    number = whole_number(text)
    return text if number is None or number < 1000 else count_text(number)


def field_text(name: str, text: str) -> str:
    """Return a value as a field has it: exact, with a unit if it is a whole number of one."""
    number, unit = whole_number(text), unit_of(name)
    if number is None or number == _limitless(name):
        return text if number is None else _NO_LIMIT
    if unit == "time" and number > 0:
        fitting = (word for word in _TIME_UNITS if number % durations.UNITS_MS[word] == 0)
        word = next(fitting, "ms")
        return f"{number // durations.UNITS_MS[word]}{word}"
    if unit == "size" and number > 0:
        return next((f"{number // size}{word}" for word, size in _SIZE_UNITS if number % size == 0), text)
    return text


def plain_value(name: str, text: str) -> str:
    """Return the value that the broker takes for what somebody wrote; a text that is not understood stays."""
    word = text.strip()
    if is_digits(word):
        return word
    limitless = _limitless(name)
    if limitless is not None and word.lower() in (_NO_LIMIT, "none", "unlimited"):
        return str(limitless)
    unit, number = unit_of(name), None
    if unit == "time":
        number = durations.milliseconds(word.lower())
    elif unit == "size":
        number = size_in_bytes(word)
    return word if number is None else str(number)


def choices_of(name: str) -> tuple[str, ...]:
    """Return the values that a setting may have, none if there are too many to choose from."""
    setting: Setting = TOPIC[name]
    if setting.kind.type is ConfigType.BOOLEAN:
        return ("true", "false")
    if name == "cleanup.policy":
        return ("delete", "compact", "compact,delete")
    return setting.kind.choices if setting.kind.type is ConfigType.STRING else ()


def hint_of(name: str) -> str:
    """Return what to write into the field of a setting."""
    unit = unit_of(name)
    if unit:
        example = "7d, 12h, 30m or milliseconds" if unit == "time" else "64MiB, 1GiB or bytes"
        return f"{example}{', or no limit' if _limitless(name) is not None else ''}"
    return TOPIC[name].kind.expected


def _limitless(name: str) -> int | None:
    """Return the value that means no limit; None for one that always has a limit, or is unknown."""
    if name in _WITHOUT_LIMIT:
        return _WITHOUT_LIMIT[name]
    setting = TOPIC.get(name)
    return LONG_MAX if setting is not None and setting.default == LONG_MAX else None
