"""Time for handshakes: each iteration of a reactor runs some of those that wait, and others the rest."""

from __future__ import annotations

from collections import deque

from twisted.internet.task import Clock

from pylogbroker.net.handshake_time import HANDSHAKE_SECONDS, HandshakeTime


def test_handshakes_share_the_time_of_an_iteration() -> None:
    clock, processor = Clock(), [0.0]
    limited, waiting = HandshakeTime(clock, lambda: processor[0]), deque(range(10))

    def step() -> int | None:
        processor[0] += HANDSHAKE_SECONDS * 0.4
        return waiting.popleft() if waiting else None

    iterations = []
    while waiting:
        iterations.append([number for _ in range(10) if (number := limited.run(step)) is not None])
        clock.advance(0)
    assert iterations == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert clock.getDelayedCalls() == []
