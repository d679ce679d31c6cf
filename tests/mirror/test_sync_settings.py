"""Settings of what follows the records, from files with the names of MirrorMaker 2."""

from __future__ import annotations

import attrs
import pytest

from pylogbroker.errors import ConfigError
from pylogbroker.mirror.configuration import mirrors_of
from pylogbroker.mirror.sync_settings import SyncSettings

CLUSTERS = {
    "clusters": "east,offline",
    "east.bootstrap.servers": "e:1",
    "offline.bootstrap.servers": "o:1",
    "east->offline.enabled": "true",
}


def sync_of(**names: str) -> SyncSettings:
    [mirror] = mirrors_of({**CLUSTERS, **{name.replace("_", "."): value for name, value in names.items()}})
    assert mirror.sync is not None
    return mirror.sync


def test_everything_but_acls_follows_by_default():
    assert sync_of() == SyncSettings()
    assert SyncSettings().group_offsets
    assert SyncSettings().group_offsets_back
    assert SyncSettings().topic_acls_interval == 0


def test_each_name_of_mirror_maker_has_its_effect():
    names = {
        "east->offline.groups": "billing, .*-etl",
        "groups.exclude": "test.*",
        "emit.checkpoints.interval.seconds": "7",
        "sync.group.offsets.enabled": "false",
        "sync.group.offsets.back.enabled": "false",
        "sync.topic.configs.interval.seconds": "30",
        "config.properties.exclude": "retention.*",
        "sync.topic.acls.enabled": "true",
        "sync.topic.acls.interval.seconds": "20",
        "emit.heartbeats.enabled": "false",
        "emit.offset-syncs.enabled": "false",
        "offset-syncs.topic.location": "target",
    }
    assert attrs.asdict(sync_of(**names)) == {
        "offset_syncs": False,
        "offset_syncs_at_source": False,
        "checkpoints_interval": 7.0,
        "group_offsets": False,
        "group_offsets_back": False,
        "groups": ("billing", ".*-etl"),
        "groups_excluded": ("test.*",),
        "topic_settings_interval": 30.0,
        "settings_excluded": ("retention.*",),
        "topic_acls_interval": 20.0,
        "heartbeats_interval": 0.0,
        "replication_factor": -1,
    }


@pytest.mark.parametrize("interval", ["0", "-1"])
def test_an_interval_that_is_not_positive_disables_a_task(interval):
    assert sync_of(**{"emit.checkpoints.interval.seconds": interval}).checkpoints_interval == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sync.group.offsets.enabled", "yes"),
        ("offset-syncs.topic.location", "both"),
        ("emit.heartbeats.interval.seconds", "1s"),
        ("emit.heartbeats.interval.seconds", "9999999999"),
    ],
)
def test_values_that_are_not_accepted_are_named(name, value):
    with pytest.raises(ConfigError, match=f"{name}: '{value}' is not accepted"):
        sync_of(**{name: value})


def test_older_names_of_lists_are_read():
    assert sync_of(**{"groups.blacklist": "a,b"}).groups_excluded == ("a", "b")
    assert sync_of(**{"config.properties.blacklist": "a"}).settings_excluded == ("a",)
