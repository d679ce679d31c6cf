"""Incremental changes of settings."""

from __future__ import annotations

import pytest

from pylogbroker.config import TOPIC, ConfigOperation, SettingChange, apply
from pylogbroker.errors import ConfigError

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
POLICY = "cleanup.policy"


@pytest.mark.parametrize(
    ("current", "changes", "result"),
    [
        ({}, [SettingChange("retention.ms", SET, "5")], {"retention.ms": "5"}),
        ({"retention.ms": "5"}, [SettingChange("retention.ms", SET, "6")], {"retention.ms": "6"}),
        ({"retention.ms": "5", "segment.ms": "1"}, [SettingChange("retention.ms", DELETE)], {"segment.ms": "1"}),
        ({}, [SettingChange("retention.ms", DELETE)], {}),
        ({}, [SettingChange("retention.ms", SET, None)], {"retention.ms": None}),
        ({}, [SettingChange(POLICY, APPEND, "compact")], {POLICY: "delete,compact"}),
        ({}, [SettingChange(POLICY, APPEND, "delete")], {POLICY: "delete"}),
        ({POLICY: "compact"}, [SettingChange(POLICY, APPEND, "delete")], {POLICY: "compact,delete"}),
        ({POLICY: "compact,delete"}, [SettingChange(POLICY, SUBTRACT, "delete")], {POLICY: "compact"}),
        (
            {"leader.replication.throttled.replicas": "0:1"},
            [SettingChange("leader.replication.throttled.replicas", APPEND, "1:1, 0:1,2:1")],
            {"leader.replication.throttled.replicas": "0:1,1:1,2:1"},
        ),
    ],
)  # fmt: skip
def test_changes(current: dict[str, str], changes: list[SettingChange], result: dict[str, str | None]) -> None:
    assert apply(current, changes, TOPIC) == result


def test_an_append_starts_from_the_effective_value() -> None:
    inherited = {POLICY: ("compact",)}
    result = apply({}, [SettingChange(POLICY, APPEND, "delete")], TOPIC, inherited)
    assert result == {POLICY: "compact,delete"}


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
@pytest.mark.parametrize("name", ["retention.ms", "no.such.setting"])
def test_only_lists_can_be_appended_to(operation: ConfigOperation, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: not a list"):
        apply({}, [SettingChange(name, operation, "5")], TOPIC)
