"""Notifications of changed settings."""

from __future__ import annotations

from pylogbroker.metadata.config_changes import changed_entity, encode_change


def test_notifications_match_kafkas() -> None:
    data = b'{"version":2,"entity_path":"users/alice/clients/app"}'
    assert encode_change("users/alice/clients/app") == data
    assert changed_entity(data) == "users/alice/clients/app"


def test_invalid_notifications_are_ignored() -> None:
    for data in (None, b"", b"[]", b"{}", b'{"entity_path":1}', b'{"entity_path":null}', b"\xff", b'"entity_path"'):
        assert changed_entity(data) == ""
