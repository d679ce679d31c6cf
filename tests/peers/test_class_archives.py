"""Servers use the archive of their classes if there is one, and start without it too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers import available, class_archives, java_server
from tests.peers.class_archives import archive_options, archive_path
from tests.peers.maven import PeerError
from tests.peers.processes import SHORT_LIVED
from tests.peers.zookeeper import ZooKeeper

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")


def test_an_archive_is_used_if_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archives, "CACHE", tmp_path)
    options = archive_options.__wrapped__
    assert options("kafka-3.9") == ()
    assert archive_path("kafka-3.9") != archive_path("kafka-2.7")
    archive_path("kafka-3.9").parent.mkdir()
    archive_path("kafka-3.9").write_bytes(b"")
    assert options("kafka-3.9")[-1] == f"-XX:SharedArchiveFile={archive_path('kafka-3.9')}"
    assert options("kafka-2.7") == ()


def test_an_archive_that_does_not_fit_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "damaged.jsa").write_bytes(b"no archive")
    options = (*SHORT_LIVED, *class_archives.SILENT, f"-XX:SharedArchiveFile={tmp_path / 'damaged.jsa'}")
    server = ZooKeeper(tmp_path / "server", java_options=options)
    with server:
        assert server.process is not None


def test_a_server_is_started_with_its_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_server, "archive_options", lambda release: (f"-XX:SharedArchiveOf={release}",))
    with pytest.raises(PeerError, match=r"Unrecognized VM option 'SharedArchiveOf=kafka-3\.9'"):
        ZooKeeper(tmp_path).start()
