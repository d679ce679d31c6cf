"""A log directory that is not there at a start: nothing takes its place, and all is as it was once it is back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.admin import create_topic
from tests.disks.small_disk import SmallDisk
from tests.disks.test_small_disk import STORAGE_ERROR, TOPIC, TwoDisks, settings
from tests.support.broker_process import BrokerProcess

META = "meta.properties"


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[TwoDisks]:
    """A broker of two directories; `there` holds one record."""
    broker = BrokerProcess(tmp_path, settings(tmp_path, tmp_path / "other"))
    disks = TwoDisks(tmp_path, tmp_path / "other", broker)
    try:
        disks.start()
        with disks.sender(disks.there) as there, disks.sender(disks.here) as here:
            assert there.produce(b"first") == (0, 0)
            assert here.produce(b"here") == (0, 0)
        yield disks
    finally:
        broker.kill()


def check_offline(disks: TwoDisks) -> None:
    """The start logs each reason once. One directory serves, and offsets of the other are not used again."""
    unexpected_errors = disks.broker.unexpected_errors()
    [named] = [line for line in unexpected_errors if "a log directory is offline" in line]
    assert f"{disks.other} is not the directory that was there before (directory.id " in named
    assert "is it mounted?" in named
    assert [line for line in unexpected_errors if f"{TOPIC}-{disks.there} is offline: " in line]
    with disks.sender(disks.there) as there, disks.sender(disks.here) as here:
        assert there.produce(b"lost") == (STORAGE_ERROR, -1)
        assert here.produce(b"here") == (0, 1)


def check_back(disks: TwoDisks) -> None:
    assert disks.values(disks.there) == [b"first"]
    assert disks.values(disks.here) == [b"here", b"here"]
    with disks.sender(disks.there) as there:
        assert there.produce(b"second") == (0, 1)
    assert disks.broker.unexpected_errors() == []


def test_a_renamed_directory(disks: TwoDisks, tmp_path: Path) -> None:
    disks.broker.stop()
    disks.other.rename(tmp_path / "elsewhere")
    for _ in range(2):  # that it is missing is no state to get used to
        disks.broker.start()
        assert not disks.other.exists()
        disks.broker.stop()
    disks.broker.start()
    check_offline(disks)
    assert not disks.other.exists()
    disks.broker.stop()
    (tmp_path / "elsewhere").rename(disks.other)
    disks.broker.start()
    check_back(disks)


def test_a_crash_in_between(disks: TwoDisks, tmp_path: Path) -> None:
    disks.broker.kill()
    disks.other.rename(tmp_path / "elsewhere")
    disks.broker.start()
    check_offline(disks)
    disks.broker.kill()
    (tmp_path / "elsewhere").rename(disks.other)
    disks.broker.start()
    check_back(disks)


def test_a_directory_that_is_not_mounted(tmp_path: Path) -> None:
    with SmallDisk(tmp_path / "disk", 4 << 20) as small:
        broker = BrokerProcess(tmp_path, settings(tmp_path, small.path), prefix=small.prefix)
        disks = TwoDisks(tmp_path, small.path, broker)
        try:
            disks.start()
            with disks.sender(disks.there) as there, disks.sender(disks.here) as here:
                assert there.produce(b"first") == (0, 0)
                assert here.produce(b"here") == (0, 0)
            broker.stop()
            small.vanish()
            broker.start()
            check_offline(disks)
            broker.stop()
            assert list(small.path.iterdir()) == []  # seen from outside: what the file system was mounted over
            small.come_back()
            broker.start()
            check_back(disks)
        finally:
            broker.kill()


def test_another_directory_in_its_place(disks: TwoDisks, tmp_path: Path) -> None:
    disks.broker.stop()
    disks.other.rename(tmp_path / "elsewhere")
    disks.other.mkdir()
    text = (tmp_path / "elsewhere" / META).read_text()
    [known] = [line for line in text.splitlines() if line.startswith("directory.id=")]
    (disks.other / META).write_text(text.replace(known, "directory.id=AAAAAAAAAAAAAAAAAAAAAQ"))
    disks.broker.start()
    check_offline(disks)
    assert [path.name for path in disks.other.iterdir()] == [META]


def test_a_directory_left_out_of_one_start_is_abandoned(disks: TwoDisks, tmp_path: Path) -> None:
    disks.broker.stop()
    shutil.rmtree(disks.other)
    alone = {"log.dirs": str(disks.steady)}
    one = BrokerProcess(tmp_path, {**settings(tmp_path, disks.other), **alone})
    try:
        one.start()
        assert any(
            f"{TOPIC}-{disks.there} is in no log directory; recreated empty at offset 0" in line
            for line in one.process.lines
        )
        assert one.unexpected_errors() == []
        one.stop()
    finally:
        one.kill()
    disks.broker.start()  # with a new directory in its place
    assert (disks.other / META).exists()
    assert disks.broker.unexpected_errors() == []
    assert disks.values(disks.there) == []
    assert disks.values(disks.here) == [b"here"]


def test_two_directories_that_change_places(tmp_path: Path) -> None:
    others = [tmp_path / name for name in ("b", "c")]
    configured = settings(tmp_path, others[0]) | {"log.dirs": f"{tmp_path / 'steady'},{others[0]},{others[1]}"}
    broker = BrokerProcess(tmp_path, configured)
    try:
        broker.start()
        create_topic(broker.bootstrap, TOPIC, 3)
        disks = TwoDisks(tmp_path, others[0], broker)
        for number in range(3):
            with disks.sender(number) as sender:
                assert sender.produce(b"%d" % number) == (0, 0)
        for _ in range(2):
            broker.stop()
            others[0].rename(tmp_path / "between")
            others[1].rename(others[0])
            (tmp_path / "between").rename(others[1])
            broker.start()
            assert [disks.values(number) for number in range(3)] == [[b"0"], [b"1"], [b"2"]]
            assert broker.unexpected_errors() == []
        broker.stop()
        others[1].rename(tmp_path / "between")
        broker.start()  # the places that they have by now are remembered
        [named] = [line for line in broker.unexpected_errors() if "a log directory is offline" in line]
        assert f"{others[1]} is not the directory" in named
    finally:
        broker.kill()


def test_a_start_without_any_usable_directory_fails(tmp_path: Path) -> None:
    tree, data = tmp_path / "tree", tmp_path / "other"
    broker = BrokerProcess(tmp_path, {"log.dirs": str(data), "metadata.log.dir": str(tree)})
    try:
        broker.start()
        create_topic(broker.bootstrap, TOPIC, 1)
        broker.stop()
        data.rename(tmp_path / "elsewhere")
        with pytest.raises(Exception, match=r"no log directory can be used: .*/other is not the directory that was"):
            broker.start()
        assert not data.exists()
    finally:
        broker.kill()
