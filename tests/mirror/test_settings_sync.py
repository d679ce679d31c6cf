"""Settings of topics that follow those of the source."""

from __future__ import annotations

import pytest

from pylogbroker.client.admin import AdminClient, ConfigResource, NewTopic
from pylogbroker.client.admin.configs import ConfigEntry
from pylogbroker.config.changes import ConfigOperation, SettingChange
from pylogbroker.errors import ConfigError
from pylogbroker.mirror.settings_sync import EXCLUDED, NameFilter, SettingsSync, changes_for, settings_of_new
from pylogbroker.testing import Broker

NOTHING = NameFilter.of("config.properties", ())
OF_MIRROR_MAKER = NameFilter.of("config.properties", EXCLUDED)


def configs(own: dict[str, str], defaults: dict[str, str]) -> dict[str, ConfigEntry]:
    """Settings of a topic, and those that it has from its broker."""
    entries = [ConfigEntry(name, value, "topic", "long", False, False) for name, value in own.items()]
    entries += [ConfigEntry(name, value, "default", "long", False, False) for name, value in defaults.items()]
    return {entry.name: entry for entry in entries}


def test_settings_of_the_topic_are_set_and_others_removed():
    source = configs({"retention.ms": "1000", "segment.ms": "5"}, {"cleanup.policy": "delete", "flush.ms": "9"})
    target = configs({"retention.ms": "2000", "cleanup.policy": "compact", "own": "1"}, {"segment.ms": "7"})
    assert changes_for(source, target, NOTHING) == [
        SettingChange("retention.ms", ConfigOperation.SET, "1000"),
        SettingChange("segment.ms", ConfigOperation.SET, "5"),
        SettingChange("cleanup.policy", ConfigOperation.DELETE),
    ]


def test_equal_topics_need_no_change():
    source = configs({"retention.ms": "1000"}, {"segment.ms": "5"})
    target = configs({"retention.ms": "1000"}, {"segment.ms": "7"})
    assert changes_for(source, target, NOTHING) == []


def test_settings_that_the_target_does_not_know_are_left_out():
    source = configs({"remote.storage.enable": "true", "retention.ms": "1000"}, {})
    assert changes_for(source, configs({}, {"retention.ms": "5"}), NOTHING) == [
        SettingChange("retention.ms", ConfigOperation.SET, "1000")
    ]


def test_settings_of_a_cluster_stay():
    source = configs({"min.insync.replicas": "3", "retention.ms": "1000"}, {"unclean.leader.election.enable": "false"})
    target = configs({"unclean.leader.election.enable": "true"}, {"min.insync.replicas": "1", "retention.ms": "5"})
    assert changes_for(source, target, OF_MIRROR_MAKER) == [SettingChange("retention.ms", ConfigOperation.SET, "1000")]
    assert settings_of_new(source, OF_MIRROR_MAKER) == {"retention.ms": "1000"}


def test_archives_and_delete_policies_of_each_cluster_stay():
    """The target may have no remote storage, and other places for archives."""
    names = ("remote.storage.enable", "local.retention.ms", "delete.policies", "remote.copy.lag.ms")
    archived = configs(dict.fromkeys(names, "1"), {})
    plain = configs({}, dict.fromkeys(names, "0"))
    assert changes_for(archived, plain, OF_MIRROR_MAKER) == changes_for(plain, archived, OF_MIRROR_MAKER) == []
    assert settings_of_new(archived, OF_MIRROR_MAKER) == {}


def test_secret_and_unchangeable_settings_are_not_copied():
    source = {
        "secret": ConfigEntry("secret", None, "topic", "password", False, True),
        "fixed": ConfigEntry("fixed", "1", "topic", "long", True, False),
    }
    assert changes_for(source, configs({}, {"secret": "", "fixed": "2"}), NOTHING) == []


def test_expressions_match_whole_names():
    chosen = NameFilter.of("groups", ["bill.*", " "], ["billing-test"])
    assert [chosen.matches(name) for name in ("billing", "billing-test", "my-billing")] == [True, False, False]
    assert not NOTHING.matches("")
    with pytest.raises(ConfigError, match=r"groups\.exclude: '\('"):
        NameFilter.of("groups", [".*"], ["("])


async def test_topics_of_the_target_follow() -> None:
    with Broker() as first, Broker() as second:
        source, target = (AdminClient(broker.bootstrap) for broker in (first, second))
        settings = {"retention.ms": "1000", "cleanup.policy": "compact"}
        await source.topics.create([NewTopic("orders", 1, 1, configs=settings)])
        await target.topics.create([NewTopic("A.orders", 1, 1, configs={"segment.ms": "70000"})])
        sync = SettingsSync(source, target, OF_MIRROR_MAKER)
        topics = {"orders": "A.orders", "missing": "A.missing"}
        assert await sync.run(topics) == 3
        assert await sync.run(topics) == 0
        resource = ConfigResource.topic("A.orders")
        described = (await target.configs.describe([resource]))[resource]
        assert {entry.name: entry.value for entry in described.values() if entry.source == "topic"} == settings
        await source.close()
        await target.close()
