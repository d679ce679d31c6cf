"""The protocol of 0.7, spoken by the simple consumer: recorded bytes, and sets made by `struct` and `zlib` alone."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHostnameResolver
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from pylogbroker.client.errors import Closed, ConnectionLost, NotConnected, OutOfRange, RecordTooLarge, RequestTimedOut
from pylogbroker.client.messages import Message
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.client.simple_consumer import EARLIEST, LATEST, SimpleConsumer
from pylogbroker.errors import CorruptRecords, ErrorCode, KafkaError
from pylogbroker.legacy07.client.adapter import Legacy07Adapter, Legacy07Connection
from pylogbroker.legacy07.client.message_set import Legacy07MessageSet
from pylogbroker.records import TimestampType
from pylogbroker.rpc.settings import Address, ConnectionSettings
from tests.legacy07 import message_sets
from tests.legacy07.message_sets import ONE, THREE, TWO, ZIPPED, message


class Peer:
    """The other side of a consumer's connection."""

    def __init__(self, **named: Any) -> None:
        self.clock = Clock()
        settings = read(CONSUMER, {}, **named)
        self.connection = Legacy07Connection(self.clock, Address("broker", 9092), ConnectionSettings.of(settings))
        self.transport = StringTransport()
        self.transport.abortConnection = self.lose  # type: ignore[method-assign]
        self.connection.makeConnection(self.transport)
        self.consumer = SimpleConsumer("broker", 9092, protocol="simple", reactor=self.clock, **named)
        self.consumer._adapter = Legacy07Adapter(self.connection, settings, self.consumer._decode_value)

    def asked(self) -> bytes:
        value = self.transport.value()
        self.transport.clear()
        return value

    def answer(self, *frames: bytes) -> None:
        for byte in struct.iter_unpack("c", b"".join(frames)):
            self.connection.dataReceived(byte[0])

    def lose(self) -> None:
        self.transport.loseConnection()
        self.connection.connectionLost()


@implementer(IHostnameResolver)
class Mute:
    """Knows no name, and does not say so."""

    def resolveHostName(self, resolutionReceiver: Any, hostName: str, *more: Any, **named: Any) -> Any:
        return resolutionReceiver


@pytest.fixture
def peer() -> Peer:
    return Peer()


def result(deferred: Deferred[Any]) -> Any:
    found: list[Any] = []
    deferred.addBoth(found.append)
    [outcome] = found
    if isinstance(outcome, Failure):
        outcome.raiseException()
    return outcome


def answer(error: int, data: bytes = b"") -> bytes:
    return struct.pack(">ih", 2 + len(data), error) + data


def offsets(*numbers: int) -> bytes:
    return answer(0, struct.pack(f">i{len(numbers)}q", len(numbers), *numbers))


def test_a_recorded_fetch(peer: Peer) -> None:
    fetching = peer.consumer.fetch("t", 0, 0, 100_000)
    assert peer.asked() == message_sets.FETCH
    peer.answer(message_sets.FETCHED)
    found = result(fetching)
    assert list(found) == [
        Message("t", 0, 0, -1, TimestampType.CREATE_TIME, None, b"one", (), 13),
        Message("t", 0, 13, -1, TimestampType.CREATE_TIME, None, b"two", (), 26),
    ]
    assert found.next_offset == 26


def test_recorded_offsets(peer: Peer) -> None:
    latest = peer.consumer.get_offsets_before("t", 0, LATEST, 10)
    assert peer.asked() == message_sets.LATEST
    peer.answer(message_sets.LATEST_ANSWER)
    assert result(latest) == [26, 0]
    earliest = peer.consumer.get_offsets_before("t", 0, EARLIEST, 10)
    assert peer.asked() == message_sets.EARLIEST
    peer.answer(message_sets.EARLIEST_ANSWER)
    assert result(earliest) == [0]


def test_multifetch(peer: Peer) -> None:
    fetching = peer.consumer.multifetch([("t", 0, 0, 100), ("u", 1, 13, 200), ("t", 9, 5, 300)])
    parts = [("t", 0, 0, 100), ("u", 1, 13, 200), ("t", 9, 5, 300)]
    body = b"".join(struct.pack(">h1siqi", 1, topic.encode(), *rest) for topic, *rest in parts)
    assert peer.asked() == struct.pack(">ihh", 4 + len(body), 2, 3) + body
    peer.answer(answer(0, answer(0, ONE) + answer(0, TWO) + answer(3)))
    first, second, third = result(fetching)
    assert [each.value for each in first] == [b"one"]
    assert [(each.offset, each.value) for each in second] == [(13, b"two")]
    with pytest.raises(KafkaError, match="wrong partition") as caught:
        list(third)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_answers_come_in_the_order_of_the_requests(peer: Peer) -> None:
    first, second = peer.consumer.fetch("t", 0, 0), peer.consumer.fetch("t", 0, 13)
    peer.answer(answer(0, ONE), answer(0, TWO))
    assert [next(iter(result(each))).value for each in (first, second)] == [b"one", b"two"]


def test_a_message_that_is_cut_off(peer: Peer) -> None:
    fetching = peer.consumer.fetch("t", 0, 0, 7)
    for size in (7, 14):
        assert peer.asked()[-4:] == struct.pack(">i", size)
        peer.answer(answer(0, (THREE + ONE)[:size]))
    peer.answer(answer(0, (THREE + ONE)[:28]))
    assert [each.value for each in result(fetching)] == [b"three", b"one"]


def test_a_message_larger_than_allowed() -> None:
    peer = Peer(fetch_max_bytes=10)
    fetching = peer.consumer.fetch("t", 0, 0, 7)
    peer.answer(
        answer(0, THREE[:7]),
    )
    peer.answer(answer(0, THREE[:10]))
    with pytest.raises(RecordTooLarge):
        result(fetching)


LONG = message_sets.message(bytes(range(1, 120)))


@pytest.mark.parametrize("offset", range(1, len(LONG)))
def test_a_fetch_from_the_middle_of_a_message_is_not_called_too_large(peer: Peer, offset: int) -> None:
    fetching = peer.consumer.fetch("t", 0, offset, 10_000)
    peer.answer(answer(0, LONG[offset:]))
    with pytest.raises(CorruptRecords) as caught:
        list(result(fetching))
    assert "too large" not in str(caught.value)
    assert "no message that begins at offset" in str(caught.value) or "position" in str(caught.value)


def test_a_fetch_from_the_middle_of_a_message_that_is_cut_off(peer: Peer) -> None:
    fetching = peer.consumer.fetch("t", 0, 10, 50)
    peer.answer(answer(0, LONG[10:60]))
    with pytest.raises(CorruptRecords, match="t/0 has no message that begins at offset 10: it lies within"):
        result(fetching)


def test_out_of_range(peer: Peer) -> None:
    fetching = peer.consumer.fetch("t", 0, 99)
    peer.answer(answer(1), offsets(13))
    peer.answer(offsets(26))
    with pytest.raises(OutOfRange) as caught:
        result(fetching)
    assert (caught.value.offset, caught.value.first, caught.value.end) == (99, 13, 26)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (-1, ErrorCode.UNKNOWN_SERVER_ERROR),
        (2, ErrorCode.CORRUPT_MESSAGE),
        (4, ErrorCode.INVALID_FETCH_SIZE),
        (55, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_errors(peer: Peer, code: int, kind: ErrorCode) -> None:
    calls = [peer.consumer.fetch("t", 0, 0), peer.consumer.get_offsets_before("t", 0, LATEST)]
    peer.answer(answer(code), answer(code, bytes(4)))
    for call in calls:
        with pytest.raises(KafkaError) as caught:
            result(call)
        assert caught.value.code is kind


def test_there_are_no_groups(peer: Peer) -> None:
    for call in (peer.consumer.commit_offsets("g", {("t", 0): 1}), peer.consumer.fetch_offsets("g", [("t", 0)])):
        with pytest.raises(KafkaError, match="coordination tree"):
            result(call)


def test_no_answer_in_time() -> None:
    peer = Peer(request_timeout_ms=5000)
    early = peer.consumer.fetch("t", 0, 0)
    peer.clock.advance(3)
    late = peer.consumer.fetch("t", 0, 0)
    peer.answer(answer(0))
    assert list(result(early)) == []
    peer.clock.advance(4)
    assert not late.called
    peer.clock.advance(1)
    with pytest.raises(RequestTimedOut):
        result(late)
    assert peer.transport.disconnecting
    assert peer.clock.getDelayedCalls() == []


@pytest.mark.parametrize("nonsense", [struct.pack(">i", -1), answer(0) * 2, struct.pack(">i", 1) + b"x"], ids=repr)
def test_an_invalid_answer_closes_the_connection(peer: Peer, nonsense: bytes) -> None:
    fetching = peer.consumer.fetch("t", 0, 0)
    peer.answer(nonsense)
    assert peer.transport.disconnecting
    if nonsense != answer(0) * 2:
        with pytest.raises(ConnectionLost, match="does not speak"):
            result(fetching)
    with pytest.raises(NotConnected):
        result(peer.connection.ask(None, len))  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", ["simple", "kafka"])
def test_a_name_that_is_not_looked_up_in_time(protocol: str) -> None:
    reactor = MemoryReactorClock()
    reactor.installNameResolver(Mute())
    named = {"socket_connection_setup_timeout_ms": 3000}
    consumer = SimpleConsumer("somewhere", 9092, protocol=protocol, reactor=reactor, **named)
    fetching = consumer.fetch("t", 0, 0)
    reactor.advance(2.9)
    assert not fetching.called
    reactor.advance(0.2)
    with pytest.raises(NotConnected, match="cannot connect to somewhere:9092"):
        result(fetching)


@pytest.mark.parametrize("is_late", [True, False])
def test_a_missing_first_answer_suggests_another_protocol(is_late: bool) -> None:
    for answers in 0, 1:
        peer = Peer(request_timeout_ms=1000)
        calls = [peer.consumer.fetch("t", 0, 0) for _ in range(2)]
        for call in calls[:answers]:
            peer.answer(answer(0))
            result(call)
        if is_late:
            peer.clock.advance(1)
        else:
            peer.lose()
        with pytest.raises((ConnectionLost, RequestTimedOut)) as caught:
            result(calls[1])
        asks = str(caught.value).endswith("; does it speak the protocol of 0.7?")
        assert asks is (answers == 0)
        for call in calls[answers:]:
            call.addErrback(lambda _: None)


def test_a_connection_that_ends_unused_is_no_riddle(peer: Peer) -> None:
    peer.lose()
    with pytest.raises(NotConnected) as caught:
        result(peer.connection.ask(None, len))  # type: ignore[arg-type]
    assert "?" not in str(caught.value)


def test_an_error_without_a_reason(peer: Peer) -> None:
    fetching = peer.consumer.fetch("t", 0, 0)
    peer.answer(answer(-1))
    with pytest.raises(KafkaError, match=r"^t/0: the broker gives no reason; the protocol of 0\.7 cannot read .*"):
        result(fetching)


def test_a_lost_and_a_closed_connection() -> None:
    lost, closed = Peer(), Peer()
    waiting = [each.consumer.fetch("t", 0, 0) for each in (lost, closed)]
    lost.lose()
    result(closed.consumer.close())
    for each, error in zip(waiting, (ConnectionLost, Closed), strict=True):
        with pytest.raises(error):
            result(each)
    assert closed.transport.disconnecting


def found(data: bytes, position: int = 0, **more: Any) -> list[tuple[int, bytes, int]]:
    return [(each.offset, each.value, each.next_offset) for each in Legacy07MessageSet("t", 0, data, position, **more)]


def test_messages_inside_of_a_compressed_one() -> None:
    """Messages inside of a compressed one cannot be fetched by their own positions."""
    assert found(ONE + ZIPPED + TWO, 100) == [
        (100, b"one", 113), (113, b"g1", 113), (114, b"g2", 164), (164, b"two", 177),
    ]  # fmt: skip


@pytest.mark.parametrize("codec", [message_sets.GZIP, message_sets.SNAPPY])
@pytest.mark.parametrize("magic", [0, 1])
def test_every_format(codec: int, magic: int) -> None:
    data = message(b"plain", magic) + message_sets.wrapped([b"a", b"b", b"c"], codec)
    assert [value for _, value, _ in found(data)] == [b"plain", b"a", b"b", b"c"]
    assert found(data)[-1][2] == len(data)


def test_a_cut_off_end() -> None:
    for length in range(len(TWO)):
        messages = Legacy07MessageSet("t", 0, ONE + TWO[:length], 50)
        assert [each.value for each in messages] == [b"one"]
        assert (messages.next_offset, messages.valid_bytes) == (63, 13)


def test_messages_before_the_damage_are_read() -> None:
    damaged = ONE * 700 + TWO[:-1] + b"?" + ONE
    coming = iter(Legacy07MessageSet("t", 0, damaged))
    assert [next(coming).offset for _ in range(700)] == list(range(0, 700 * 13, 13))
    with pytest.raises(CorruptRecords):
        next(coming)
    assert len(found(damaged, check_crcs=False)) == 702


def test_columns() -> None:
    columns = list(Legacy07MessageSet("t", 0, ONE * 3 + TWO, 100).columns())
    assert [offset for each in columns for offset in each.offsets.tolist()] == [100, 113, 126, 139]
    assert [value for each in columns for value in each.values()] == [b"one", b"one", b"one", b"two"]
    assert columns[-1].next_offset == 152
