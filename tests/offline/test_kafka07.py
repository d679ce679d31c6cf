"""Log directories of Kafka 0.7 are imported: whole, unchanged, and only into the topics that they belong to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pylogbroker.config import BrokerConfig
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.offline import kafka07_import
from pylogbroker.offline.stopped_broker import finish, stopped_broker
from tests.legacy07.message_sets import GZIP, message
from tests.offline.commands import fail, on_a_terminal, run, succeed
from tests.offline.kafka07 import content, messages, write_partition


def stored(data: Path, topic: str, partition: int) -> bytes:
    files = sorted((data / f"{topic}_{partition}").glob("*.kafka"))
    return b"".join(file.read_bytes() for file in files)


def ends(data: Path) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the beginning and end of each log at the next start; nothing must be left to recover."""
    reported: list[object] = []
    with stopped_broker(BrokerConfig({"log.dirs": str(data)})) as broker, broker.loaded_logs(reported.append) as logs:
        found = {key: (log.log_start_offset, log.log_end_offset) for key, log in logs.items()}
    assert reported == []
    return found


def settings_of(data: Path, topic: str) -> dict[str, str]:
    with stopped_broker(BrokerConfig({"log.dirs": str(data)})) as broker:
        return dict(broker.metadata.topic_settings(topic))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A log directory: two partitions of a topic, one with 11 digits, and one of another that retention cut."""
    source = tmp_path / "old"
    write_partition(source / "my_topic_0", messages("my_topic", 0, 100), digits=11)
    write_partition(source / "my_topic_1", messages("my_topic", 1, 70))
    write_partition(source / "other-topic-0", messages("other-topic", 0, 50), start=123_456)
    (source / ".kafka_cleanshutdown").touch()
    (source / "notes_2011").mkdir()
    return source


@pytest.mark.parametrize("options", [[], ["--link"]])
def test_bytes_and_positions_stay(old: Path, tmp_path: Path, options: list[str]) -> None:
    before = content(old)
    data = tmp_path / "data"
    output = succeed("migrate", "kafka07", old, "--data-dir", data, *options)
    one = b"".join(messages("my_topic", 0, 100))
    two = b"".join(messages("my_topic", 1, 70))
    three = b"".join(messages("other-topic", 0, 50))
    assert f"my_topic_0: 100 message(s), positions 0 to {len(one)}" in output
    assert "imported my_topic, 2 partition(s)" in output
    assert stored(data, "my_topic", 0) == one
    assert stored(data, "my_topic", 1) == two
    assert stored(data, "other-topic", 0) == three
    assert ends(data) == {
        ("my_topic", 0): (0, len(one)),
        ("my_topic", 1): (0, len(two)),
        ("other-topic", 0): (123_456, 123_456 + len(three)),
    }
    assert content(old) == before
    first, *_, last = sorted((data / "my_topic_0").glob("*.kafka"))
    assert (first.stat().st_nlink, last.stat().st_nlink) == (2 if options else 1, 1)
    assert first.stat().st_mtime == 1_300_000_000


@pytest.mark.parametrize("options", [[], ["--link"]])
def test_a_bar_where_there_is_a_terminal(old: Path, tmp_path: Path, options: list[str]) -> None:
    """Bytes that are copied count; the last segment of a partition is copied also if the others are linked."""
    shown = on_a_terminal("migrate", "kafka07", str(old), "--data-dir", str(tmp_path / "data"), *options)
    paths = [sorted((tmp_path / "data" / f"my_topic_{number}").glob("*.kafka")) for number in (0, 1)]
    size = sum(path.stat().st_size for each in paths for path in each[-1 if options else 0 :])
    assert "Importing my_topic" in shown
    assert f"{size / 1000:.1f}/{size / 1000:.1f} kB" in shown
    assert "Importing" not in succeed("migrate", "kafka07", old, "--data-dir", tmp_path / "other", *options)


def test_an_imported_topic_keeps_old_segments(old: Path, tmp_path: Path) -> None:
    succeed("migrate", "kafka07", old, "--data-dir", tmp_path / "data", "--set", "segment.bytes=1048576")
    assert settings_of(tmp_path / "data", "my_topic") == {
        "message.format.version": "0.7",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "segment.bytes": "1048576",
    }


def test_a_dry_run_writes_nothing(old: Path, tmp_path: Path) -> None:
    output = succeed("migrate", "kafka07", old, "--data-dir", tmp_path / "data", "--dry-run")
    assert "my_topic_1: 70 message(s)" in output
    assert output.endswith("Nothing was written.\n")
    assert not (tmp_path / "data").exists()


def test_topics_by_name(old: Path, tmp_path: Path) -> None:
    succeed("migrate", "kafka07", old, "--data-dir", tmp_path / "data", "--topic", "other-topic")
    assert {topic for topic, _ in ends(tmp_path / "data")} == {"other-topic"}


def test_brokers_partitions_come_one_after_the_other(tmp_path: Path) -> None:
    for broker, numbers in ((3, (0, 2)), (7, (0,))):
        for number in numbers:
            write_partition(tmp_path / str(broker) / f"t-{number}", [message(b"%d-%d" % (broker, number))])
    data = tmp_path / "data"
    succeed("migrate", "kafka07", f"7={tmp_path}/7", f"3={tmp_path}/3", "--data-dir", data)
    expected = [message(b"3-0"), b"", message(b"3-2"), message(b"7-0")]
    assert [stored(data, "t", number) for number in range(4)] == expected
    assert ends(data)["t", 1] == (0, 0)


class TestDamage:
    """Damaged messages are cut off, as in recovery, and logged; messages before them are imported."""

    def import_one(self, tmp_path: Path, segments: dict[str, bytes]) -> tuple[str, bytes]:
        directory = tmp_path / "old" / "t-0"
        directory.mkdir(parents=True)
        for name, data in segments.items():
            (directory / name).write_bytes(data)
        before = content(tmp_path / "old")
        done = run("migrate", "kafka07", tmp_path / "old", "--data-dir", tmp_path / "data")
        output = done.output
        assert done.exit_code == 10, output
        assert f"1 partition(s) are damaged: {directory}\n" in output
        assert content(tmp_path / "old") == before
        kept = stored(tmp_path / "data", "t", 0)
        assert ends(tmp_path / "data") == {("t", 0): (0, len(kept))}
        return output, kept

    @pytest.mark.parametrize("left", [1, 3, 5, 12])
    def test_a_message_that_a_crash_cut_short(self, tmp_path: Path, left: int) -> None:
        torn = message(b"two")[:left]
        output, kept = self.import_one(tmp_path, {"00000000000.kafka": message(b"one") + torn})
        assert kept == message(b"one")
        assert f"{left} bytes are skipped" in output

    @pytest.mark.parametrize("link", [False, True])
    def test_a_wrong_crc_in_the_middle(self, tmp_path: Path, link: bool) -> None:
        first, second = message(b"one") + message(b"two"), message(b"three") + message(b"four")
        damaged = bytearray(second)
        damaged[-1] ^= 1
        segments = {
            "00000000000.kafka": first,
            f"{len(first):011d}.kafka": bytes(damaged),
            f"{len(first) + len(second):011d}.kafka": message(b"five"),
        }
        output, kept = self.import_one(tmp_path, segments)
        assert kept == first + message(b"three")
        assert f"{len(message(b'four')) + len(message(b'five'))} bytes are skipped" in output
        assert "has CRC" in output

    def test_a_segment_that_is_missing(self, tmp_path: Path) -> None:
        output, kept = self.import_one(
            tmp_path, {"00000000000.kafka": message(b"one"), "00000000100.kafka": message(b"two")}
        )
        assert kept == message(b"one")
        assert "00000000100.kafka begins at 100, where 13 is expected" in output

    def test_zeros_behind_the_end(self, tmp_path: Path) -> None:
        _, kept = self.import_one(tmp_path, {"00000000000.kafka": message(b"one") + bytes(4096)})
        assert kept == message(b"one")

    def test_a_compressed_message_with_damaged_content_is_kept_and_named(self, tmp_path: Path) -> None:
        bad = message(b"no gzip at all", attributes=GZIP)
        output, kept = self.import_one(tmp_path, {"00000000000.kafka": message(b"one") + bad})
        assert kept == message(b"one") + bad
        assert "the compressed message at 13 cannot be read" in output


class TestAgain:
    """An import that was killed leaves nothing half, and the next one goes on."""

    @pytest.mark.parametrize("moment", ["rename", "add", "remove"])
    def test_after_a_kill(self, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
        data = tmp_path / "data"
        calls, original = 0, getattr(os, moment, None)

        def killed(*arguments: object) -> None:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise SystemExit(9)
            original(*arguments)

        with monkeypatch.context() as patched:
            if moment == "add":
                patched.setattr(kafka07_import, "add_topic", lambda *_: exit(9))
            else:
                target = kafka07_import.os if moment == "rename" else kafka07_import
                patched.setattr(target, moment, killed)
            assert run("migrate", "kafka07", old, "--data-dir", data).exit_code == 9
        output = succeed("migrate", "kafka07", old, "--data-dir", data)
        assert set(ends(data)) == {("my_topic", 0), ("my_topic", 1), ("other-topic", 0)}
        assert stored(data, "my_topic", 0) == b"".join(messages("my_topic", 0, 100))
        assert not list(data.rglob("imported"))
        assert not list(data.glob("*-import"))
        assert ("skipped my_topic" in output) == (moment == "remove")

    def test_an_imported_topic_is_not_imported_again(self, old: Path, tmp_path: Path) -> None:
        data = tmp_path / "data"
        succeed("migrate", "kafka07", old, "--data-dir", data)
        before = stored(data, "my_topic", 0)
        shutil.rmtree(old / "my_topic_1")
        output = succeed("migrate", "kafka07", old, "--data-dir", data)
        assert "skipped my_topic: it was imported before" in output
        assert stored(data, "my_topic", 0) == before


class TestErrors:
    """Nothing is imported where something would be in the way, or is not what it is said to be."""

    def test_a_topic_that_is_there(self, old: Path, tmp_path: Path) -> None:
        data = tmp_path / "data"
        with stopped_broker(BrokerConfig({"log.dirs": str(data)})) as broker:
            finish(broker.controller.create_topic(NewTopic("my_topic", 1, 1)))
        assert "topic my_topic exists already: delete it, or exclude it" in fail(
            "migrate", "kafka07", old, "--data-dir", data
        )
        assert not list(data.glob("other*"))

    def test_a_directory_in_the_way(self, old: Path) -> None:
        assert f"{old}/my_topic_0 exists: move it out of {old}" in fail("migrate", "kafka07", old, "--data-dir", old)

    def test_sources_without_data(self, tmp_path: Path, old: Path) -> None:
        data = tmp_path / "data"
        assert "holds no data of Kafka 0.7: expected directories such as my_topic-0" in fail(
            "migrate", "kafka07", tmp_path, "--data-dir", data
        )
        assert "name the log directory above it" in fail("migrate", "kafka07", old / "my_topic_0", "--data-dir", data)
        assert "No such file" in fail("migrate", "kafka07", tmp_path / "none", "--data-dir", data)
        assert "are both of broker 0" in fail("migrate", "kafka07", old, old, "--data-dir", data)
        assert not data.exists()

    def test_twins(self, tmp_path: Path) -> None:
        write_partition(tmp_path / "a" / "t-0", [message(b"one")])
        write_partition(tmp_path / "a" / "t_0", [message(b"one")])
        assert "are the same partition" in fail("migrate", "kafka07", tmp_path / "a", "--data-dir", tmp_path / "data")
        shutil.rmtree(tmp_path / "a" / "t_0")
        (tmp_path / "a" / "t-0" / "00000000000.kafka").write_bytes(message(b"two"))
        assert "have the same position" in fail("migrate", "kafka07", tmp_path / "a", "--data-dir", tmp_path / "data")

    def test_a_name_that_no_topic_can_have(self, tmp_path: Path) -> None:
        write_partition(tmp_path / "a" / "my topic-0", [message(b"one")])
        assert "Topic name is invalid" in fail("migrate", "kafka07", tmp_path / "a", "--data-dir", tmp_path / "data")

    def test_the_broker_must_be_named(self, old: Path) -> None:
        done = run("migrate", "kafka07", old)
        assert done.exit_code == 2
        assert "give --config or --data-dir" in done.output
