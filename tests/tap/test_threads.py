"""The broker's threads: readers and logins give way to all others, and each pool has the size that its setting says."""

from __future__ import annotations

import os
import threading
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import gatherResults
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from pylogbroker.config import BrokerConfig
from pylogbroker.tap.threads import NICENESS, Threads


class ThreadsTests(TestCase):
    async def setUp(self) -> None:  # type: ignore[override]
        self.threads = Threads(reactor, BrokerConfig({"num.io.threads": "2", "background.threads": "3"}))
        self.addCleanup(self.threads.stop)
        await deferLater(reactor, 0)  # before the reactor runs, every call is made at once

    async def test_readers_and_logins_are_nicer_than_the_others(self) -> None:
        def niceness() -> int:
            return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

        ours = niceness()
        self.assertEqual(await self.threads.in_thread(niceness), ours)
        self.assertEqual(await self.threads.in_reading_thread(niceness), max(ours, NICENESS))
        self.assertEqual(await self.threads.in_login_thread(niceness), max(ours, NICENESS))
        self.assertEqual(niceness(), ours)

    async def test_readers_that_wait_for_the_disk_keep_no_others_waiting(self) -> None:
        go_on = threading.Event()
        self.addCleanup(go_on.set)
        readers: list[Any] = [self.threads.in_reading_thread(go_on.wait, 60) for _ in range(20)]
        self.assertEqual(await self.threads.in_thread(lambda: "synced"), "synced")
        self.assertFalse(any(reader.called for reader in readers))
        go_on.set()
        self.assertEqual(await gatherResults(readers), [True] * 20)

    async def test_logins_keep_no_syncs_waiting(self) -> None:
        go_on = threading.Event()
        self.addCleanup(go_on.set)
        logins: list[Any] = [self.threads.in_login_thread(go_on.wait, 60) for _ in range(20)]
        self.assertEqual(await self.threads.in_thread(lambda: "synced"), "synced")
        self.assertFalse(any(login.called for login in logins))
        go_on.set()
        self.assertEqual(await gatherResults(logins), [True] * 20)

    async def test_no_more_read_at_once_than_the_setting_allows(self) -> None:
        both = threading.Barrier(2)
        await gatherResults([self.threads.in_reading_thread(both.wait, 60) for _ in range(2)])
        names = [self.threads.in_reading_thread(threading.get_native_id) for _ in range(50)]
        self.assertLessEqual(len(set(await gatherResults(names))), 2)
