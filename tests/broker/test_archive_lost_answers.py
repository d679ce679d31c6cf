"""Changes of the remote storage whose answers are lost: they have happened, but the broker takes them for failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from unittest.mock import patch

from pylogbroker.plugins.remote_storages import DirectoryStorage
from tests.broker.archives import ArchiveTests
from tests.broker.trees import now

VALUES = [b"%020d" % number for number in range(9)]
ALL = list(enumerate(VALUES))


class LostAnswersTests(ArchiveTests):
    def setUp(self) -> None:
        super().setUp()
        self.create()
        self.append("t", *VALUES)

    def copy_with_a_lost_answer(self, is_lost: Callable[[str], bool]) -> None:
        """Copy segments, until the answer to the first put is lost that `is_lost` names."""
        put = DirectoryStorage.put

        def interrupted(store: DirectoryStorage, name: str, parts: Iterable[bytes]) -> None:
            put(store, name, parts)
            if is_lost(name):
                raise OSError("the connection was reset")

        with patch.object(DirectoryStorage, "put", interrupted):
            self.copy()

    def list_again(self) -> None:
        """Let the leader list the objects, as it does once in an hour, and if a consumer misses one."""
        archive = self.partition().archive
        now(archive._catalog.listed(again=True))  # type: ignore[union-attr]

    def test_a_copy_that_is_stored_and_listed_is_not_deleted(self) -> None:
        self.copy_with_a_lost_answer(lambda name: name.endswith(".manifest"))
        self.list_again()
        self.expire()
        self.assertGreater(self.partition().log.local_start_offset, 0)
        self.node.clock.advance(60)
        self.archive_all()
        self.assertEqual(self.read_all(), ALL)

    def test_a_copy_that_is_not_listed_is_made_again(self) -> None:
        self.copy_with_a_lost_answer(lambda name: name.endswith(".manifest"))
        self.node.clock.advance(60)
        self.archive_all()
        self.assertEqual(self.read_all(), ALL)
        stored = [name for name in self.objects() if name.endswith(".manifest")]
        self.assertEqual(len(stored), len(set(stored)), stored)
