"""Time for handshakes: each iteration of a reactor runs some of those that wait, and others the rest."""

from __future__ import annotations

import attrs
from twisted.internet.task import Clock

from pylogbroker.net.handshake_time import HANDSHAKE_SECONDS, RESUMED_MAX, HandshakeTime


@attrs.define(eq=False)
class Connection:
    number: int
    connected: bool = True
    is_read: bool = True

    def stopReading(self) -> None:
        self.is_read = False

    def startReading(self) -> None:
        self.is_read = True


def test_handshakes_share_the_time_of_an_iteration() -> None:
    clock, processor = Clock(), [0.0]
    limited, left = HandshakeTime(clock, lambda: processor[0]), [Connection(number) for number in range(20)]

    def step(connection: Connection) -> int:
        processor[0] += HANDSHAKE_SECONDS * 0.4
        left.remove(connection)
        return connection.number

    def iteration() -> list[int]:
        """Read the connections that have bytes, as a reactor does, after what is due."""
        scheduled, clock.calls = clock.calls, []
        for call in scheduled:
            call.func()
        readable = [each for each in left if each.is_read]
        assert not scheduled or len(readable) <= RESUMED_MAX
        found = [limited.run(each, lambda each=each: step(each)) for each in readable]  # type: ignore[misc]
        return [number for number in found if number is not None]

    iterations = [iteration(), iteration()]
    assert iterations == [[0, 1, 2], [3, 4, 5]]
    gone = left.pop()
    gone.connected = False
    while left:
        iterations.append(iteration())
        assert 1 <= len(iterations[-1]) <= 3
    assert sorted(number for each in iterations for number in each) == list(range(19))
    assert not gone.is_read
    iteration()
    assert clock.getDelayedCalls() == []
