"""Sources of the bytes of 0.7's answers, and requests on failing and slow disks."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred

from pylogbroker.broker.assembly import Broker
from pylogbroker.errors import ProtocolViolation
from pylogbroker.legacy07.server import requests
from pylogbroker.legacy07.wire import decode_legacy07_request
from pylogbroker.long_loops import at_once
from pylogbroker.storage import FileRegion
from tests.broker.failing_disks import PageCache, broken, failing
from tests.broker.log_lines import logged_lines
from tests.legacy07 import message_sets
from tests.legacy07.test_requests import SimpleTests

SMALL = 64 * 1024
LARGE = b"".join(message_sets.message(b"%d" % number * 10_000) for number in range(10, 60))
"""A set of a megabyte."""


def path_of(broker: Broker, partition: int = 0) -> str:
    return broker.partitions.find("t", partition).log.path


@contextmanager
def unsent(directory: str) -> Iterator[None]:
    """Nothing of the files below a directory can be brought into the page cache."""
    real = os.sendfile

    def perhaps(to: int, fd: int, *arguments: Any) -> int:
        if os.readlink(f"/proc/self/fd/{fd}").startswith(directory + "/"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(to, fd, *arguments)

    with patch.object(os, "sendfile", perhaps):
        yield


class DiskTests(SimpleTests):
    def chunks(self, request: bytes) -> Sequence[Any]:
        """An answer as the network gets it."""
        answer = requests.handle(self.node.broker, decode_legacy07_request(memoryview(request)[4:]))
        chunks = at_once(answer) if isinstance(answer, Coroutine) else answer
        assert chunks is not None
        return chunks

    def joined(self, waiting: Deferred[Any]) -> bytes:
        chunks = self.successResultOf(waiting)
        return b"".join(each.read() if isinstance(each, FileRegion) else bytes(each) for each in chunks)

    def test_large_parts_are_sent_from_the_file(self) -> None:
        self.send(message_sets.produce(b"t", 0, LARGE))
        self.send(message_sets.produce(b"t", 0, message_sets.ONE))
        head, region = self.chunks(message_sets.fetch(b"t", 0, 7))
        self.assertIsInstance(region, FileRegion)
        self.assertEqual((region.position, len(region)), (7, len(LARGE) + 13 - 7))
        self.assertEqual(os.readlink(f"/proc/self/fd/{region.file.fd}"), f"{path_of(self.node.broker)}/{0:020}.kafka")
        self.assertEqual(bytes(head), message_sets.answer(0, (LARGE + message_sets.ONE)[7:])[:6])
        whole, *parts = self.chunks(message_sets.multifetch((b"t", 0, 0, SMALL + 1), (b"t", 0, len(LARGE), 99)))
        self.assertEqual([type(each) is FileRegion for each in parts], [False, True, False])
        self.assertEqual(int.from_bytes(whole[:4], "big"), 2 + sum(map(len, parts)))

    def test_memory_of_a_multifetch_is_bounded(self) -> None:
        """However many parts it has: a request of some kilobytes must not take gigabytes."""
        self.send(message_sets.produce(b"t", 0, LARGE))
        request = message_sets.multifetch(*[(b"t", 0, number, SMALL) for number in range(500)])
        answer = self.chunks(request)
        in_memory = sum(len(chunk) for chunk in answer if not isinstance(chunk, FileRegion))
        self.assertLess(in_memory, 2 << 20)
        data = b"".join(chunk.read() if isinstance(chunk, FileRegion) else bytes(chunk) for chunk in answer)
        parts = (message_sets.answer(0, LARGE[number : number + SMALL]) for number in range(500))
        self.assertEqual(data, message_sets.answer(0, b"".join(parts)))

    def test_cold_parts_are_read_by_a_thread(self) -> None:
        self.send(message_sets.produce(b"t", 0, LARGE))
        self.node.threads.holding = True
        for request, expected in (
            (message_sets.fetch(b"t", 0, 5, 900), message_sets.answer(0, LARGE[5:905])),
            (message_sets.fetch(b"t", 0, 0), message_sets.answer(0, LARGE)),
            (
                message_sets.multifetch((b"t", 0, 3, 9), (b"u", 0, 0, 9)),
                message_sets.answer(0, message_sets.answer(0, LARGE[3:12]) + message_sets.answer(0)),
            ),
        ):
            with PageCache(path_of(self.node.broker)) as cache:
                waiting = self.send_late(request)
                while self.node.threads.held:
                    self.assertNoResult(waiting)
                    held, call = self.node.threads.held[0]
                    self.node.threads.held[0] = held, partial(cache.in_worker, call)
                    self.node.threads.run_one()
                self.assertGreater(cache.waits, 0)
            self.assertEqual(self.joined(waiting), expected)


class FailingDiskTests(SimpleTests):
    """Two log directories: the partitions of `t` lie in one each."""

    directory_count = 2
    settings = {"num.partitions": "2"}

    def setUp(self) -> None:
        super().setUp()
        self.send(message_sets.PRODUCE_ONE)
        self.send(message_sets.produce(b"t", 1, message_sets.TWO))
        self.bad = os.path.dirname(path_of(self.node.broker))
        self.assertNotEqual(self.bad, os.path.dirname(path_of(self.node.broker, partition=1)))

    def assert_offline(self) -> None:
        self.assertEqual(list(self.node.broker.partitions.led), [("t", 1)])

    def test_a_read_error_takes_the_partition_offline(self) -> None:
        error = failing(errno.EIO)
        with broken("preadv", self.bad, error), unsent(self.bad), logged_lines() as lines:
            found = self.send(message_sets.multifetch((b"t", 0, 0, 99), (b"t", 1, 0, 99)))
        self.assertEqual(
            found, message_sets.answer(0, message_sets.answer(-1) + message_sets.answer(0, message_sets.TWO))
        )
        self.assert_offline()
        self.assertIn("offline", "\n".join(lines))
        self.assertEqual(self.send(message_sets.fetch(b"t", 0, 0)), message_sets.answer(-1))
        self.assertEqual(self.send(message_sets.offsets(b"t", 0, -1, 1)), message_sets.offsets_answer(-1))

    def test_a_write_error_takes_the_partition_offline(self) -> None:
        with broken("pwritev", self.bad, failing(errno.EIO)), self.assertRaises(ProtocolViolation):
            self.send(message_sets.PRODUCE_ONE)
        self.assert_offline()

    def test_a_write_error_in_a_partition_chosen_by_the_broker(self) -> None:
        with broken("pwritev", self.bad, failing(errno.EIO)), self.assertRaises(ProtocolViolation):
            for _ in range(50):
                self.send(message_sets.produce(b"t", -1, message_sets.ONE))
        self.assert_offline()
        for _ in range(20):
            self.send(message_sets.produce(b"t", -1, message_sets.ONE))
        self.assertEqual(self.send(message_sets.offsets(b"t", 1, -1, 1))[:8], message_sets.offsets_answer(0, 0)[:8])

    def test_a_directory_that_is_gone(self) -> None:
        shutil.rmtree(path_of(self.node.broker))
        self.assertEqual(self.send(message_sets.offsets(b"t", 0, -1, 1)), message_sets.offsets_answer(-1))
        self.assert_offline()
        self.assertEqual(self.send(message_sets.offsets(b"t", 1, -1, 1)), message_sets.offsets_answer(0, 13))
