"""Files that a real ZooKeeper wrote, dumps of nodes, and what is wrong with some of them."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from pylogbroker.offline.stopped_broker import OfflineError
from pylogbroker.offline.zookeeper import read_nodes
from tests.offline.zookeeper_registries import BEFORE, CHROOT, FILES, after
from tests.peers import available
from tests.peers.zookeeper import ZooKeeper

WANTED = after(BEFORE)
VERSION_2 = FILES / "version-2"
SNAPSHOT = VERSION_2 / "snapshot.38"
LISTING = """
=== broker 1 started
c / cv -1->15
+ /brokers/topics  v=0 cv=0 czxid=7 mzxid=7 acl=world:anyone:rwcda
      'null'
+ /brokers/topics/orders  v=0 cv=1 czxid=128 mzxid=128 acl=world:anyone:rwcda
      b'{"partitions":{"0":[1]}}'
+ /brokers/topics/gone  v=0
      b'{}'
=== a second partition added
~ /brokers/topics/orders  v=1 cv=1 czxid=128 mzxid=134
      b'{"partitions":{"0":[1],"1":[1]}}'
      was v=0 b'{"partitions":{"0":[1]}}'
- /brokers/topics/gone
"""


def read(*sources: str | Path, chroot: str = CHROOT, reported: list[str] | None = None) -> dict[str, str | None]:
    """The nodes that the sources are known to have, with their data."""
    report = [] if reported is None else reported
    nodes = read_nodes([str(source) for source in sources], chroot, report.append)
    assert reported is not None or report == []
    known = {**BEFORE, **WANTED}
    return {path: data.decode() or None for path, data in nodes.items() if path in known}


def test_a_snapshot_and_the_transactions_behind_it() -> None:
    assert read(FILES) == WANTED
    assert read(VERSION_2) == WANTED
    assert read(FILES, chroot=CHROOT + "/") == WANTED


def test_a_snapshot_alone() -> None:
    assert read(SNAPSHOT) == BEFORE


def test_transactions_alone() -> None:
    assert read(VERSION_2 / "log.1", VERSION_2 / "log.39") == WANTED


def test_directories_of_their_own_for_both(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "data").mkdir()
    shutil.copy(SNAPSHOT, tmp_path / "data")
    shutil.copy(VERSION_2 / "log.39", tmp_path / "logs")
    assert read(tmp_path / "data", tmp_path / "logs") == WANTED


def test_a_snapshot_under_another_name_and_a_compressed_one(tmp_path: Path) -> None:
    shutil.copy(SNAPSHOT, tmp_path / "backup")
    assert read(tmp_path / "backup") == BEFORE
    (tmp_path / "snapshot.38.gz").write_bytes(gzip.compress(SNAPSHOT.read_bytes()))
    assert read(tmp_path / "snapshot.38.gz") == BEFORE


def test_a_dump_as_json(tmp_path: Path) -> None:
    (tmp_path / "dump.json").write_text(json.dumps({CHROOT + path: data for path, data in WANTED.items()}))
    assert read(tmp_path / "dump.json") == WANTED


def test_a_listing(tmp_path: Path) -> None:
    (tmp_path / "listing").write_text(LISTING)
    nodes = read_nodes([str(tmp_path / "listing")], "", print)
    assert nodes == {"/brokers/topics": b"", "/brokers/topics/orders": b'{"partitions":{"0":[1],"1":[1]}}'}


def test_captured_listings() -> None:
    captured = Path(__file__).parents[1] / "captured" / "znodes.txt"
    nodes = read_nodes([str(captured)], "", print)
    assert json.loads(nodes["/brokers/topics/orders"])["partitions"].keys() == {"0", "1", "2"}
    assert "/brokers/topics/gone" not in nodes


@pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
def test_a_server_that_runs(tmp_path: Path) -> None:
    shutil.copytree(VERSION_2, tmp_path / "version-2")
    with ZooKeeper(tmp_path) as server:
        assert read(server.address) == WANTED
        with pytest.raises(OfflineError, match="has none of Kafka's nodes below /other"):
            read(server.address, chroot="/other")


class TestDamage:
    """A file that is damaged is never taken for a whole one."""

    @pytest.mark.parametrize("position", range(0, SNAPSHOT.stat().st_size - 60, 97))
    def test_a_snapshot(self, tmp_path: Path, position: int) -> None:
        data = bytearray(SNAPSHOT.read_bytes())
        data[position] ^= 0x10
        (tmp_path / "snapshot.38").write_bytes(data)
        with pytest.raises(OfflineError, match="all snapshots are damaged"):
            read(tmp_path / "snapshot.38", reported=[])

    def test_the_one_before_it_is_taken(self, tmp_path: Path) -> None:
        shutil.copytree(VERSION_2, tmp_path / "version-2")
        (tmp_path / "version-2" / "snapshot.38").write_bytes(SNAPSHOT.read_bytes()[:900])
        reported: list[str] = []
        assert read(tmp_path, reported=reported) == WANTED
        [line] = reported
        assert "using the previous snapshot" in line

    def test_a_transaction(self, tmp_path: Path) -> None:
        data = bytearray((VERSION_2 / "log.39").read_bytes())
        at = data.index(b"/kafka/consumers/late/offsets/my_topic/0-0")
        data[at] ^= 1
        (tmp_path / "log.39").write_bytes(data)
        reported: list[str] = []
        assert read(SNAPSHOT, tmp_path / "log.39", reported=reported) == BEFORE
        [line] = reported
        assert "is damaged: the rest is not read" in line

    def test_a_log_that_a_crash_cut_short(self, tmp_path: Path) -> None:
        data = (VERSION_2 / "log.39").read_bytes().rstrip(b"\0")
        (tmp_path / "log.39").write_bytes(data[:-5])
        reported: list[str] = []
        found = read(SNAPSHOT, tmp_path / "log.39", reported=reported)
        assert found["/consumers/late/offsets/my_topic/0-0"] == "26"
        assert len(reported) == 1


class TestErrors:
    """Files that are no source get an error that says so."""

    def test_no_chroot(self) -> None:
        with pytest.raises(OfflineError, match=r"none of Kafka's nodes below /; Kafka's nodes are below /kafka: set "):
            read(FILES, chroot="")

    def test_an_empty_or_missing_directory(self, tmp_path: Path) -> None:
        with pytest.raises(OfflineError, match="is neither an existing file nor the host:port of a server"):
            read(tmp_path / "none")
        with pytest.raises(OfflineError, match=r"has no snapshot\.\* and no log\.\*"):
            read(tmp_path)

    @pytest.mark.parametrize("content", [b'{"a": 1}', b"{", b"+ /brokers/topics/t\n  nonsense\n", b"\xff\xfe"])
    def test_rubbish(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "dump").write_bytes(content)
        with pytest.raises(OfflineError, match=f"^{tmp_path}/dump: "):
            read(tmp_path / "dump", chroot="")
