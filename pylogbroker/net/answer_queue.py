"""Answers of one connection, which leave in the order of the requests.

    a handler returns           path of the answer
    --------------------------  ---------------------------------------------------------------
    a short answer, no slots    encoded ------------------------------------> out --> transport
    a long one, or with slots   slot: encoded ------------> first in line --> out --> transport
    a Deferred or coroutine     slot: awaited, encoded ---> first in line --> out --> transport

Long answers are encoded in slices. `ResponseSlot` has the stages of a slot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine, Iterable
from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.errors import ErrorCode, KafkaError, ProtocolViolation
from pylogbroker.net.limits import MemoryLimit
from pylogbroker.net.response_slots import ResponseEncoder, ResponseSlot
from pylogbroker.rpc.transport import BUFFERS
from pylogbroker.wire import Chunk, EncodingError

log = Logger()

REQUESTS_WAITING_MAX: Final = 1000
"""Requests that may wait for their answer."""

UNSENT_BYTES_MAX = 512 * 1024
"""With more unsent answers, no request is handled."""

OUT_BYTES_MAX = 128 * 1024
OUT_CHUNKS_MAX = 256
"""With more of either, answers leave before the next request of a read is handled."""

_ENCODE_INLINE_STRUCTS_MAX = 500  # some hundred microseconds; longer answers are encoded in slices


class AnswerTransport(Protocol):
    @property
    def unsent_bytes(self) -> int: ...
    @property
    def unsent_chunks(self) -> int: ...
    def send_chunks(self, chunks: Iterable[Any]) -> None: ...


class AnsweringConnection(Protocol):
    """Connection, as its answers know it."""

    @property
    def peer(self) -> str: ...
    def violated(self, reason: str, /) -> None: ...
    def close_because(self, reason: str, /) -> None: ...
    def answers_ready(self) -> None: ...
    def run_in_slices(self, work: Coroutine[Any, Any, Any], /) -> Deferred[Any]: ...


class _Gone:
    """Stand-in for a connection that is lost; it frees the memory of both."""

    peer = "a lost connection"

    def violated(self, reason: str) -> None:
        pass

    def close_because(self, reason: str) -> None:
        pass

    def answers_ready(self) -> None:
        pass

    def run_in_slices(self, work: Coroutine[Any, Any, Any]) -> Deferred[Any]:
        work.close()
        return Deferred()


_GONE: Final = _Gone()


class AnswerQueue:
    """Encoded answers, `out`, that leave with the next write, and `slots` of answers that cannot leave yet.

    `held` is the memory of the slots in bytes: of each request while it is handled, of its answer from then on.
    """

    __slots__ = ("_connection", "_transport", "held", "out", "out_bytes", "slots")
    slots_max = REQUESTS_WAITING_MAX

    def __init__(self, connection: AnsweringConnection, transport: AnswerTransport) -> None:
        self.slots: deque[ResponseSlot] = deque()
        self.out: list[Chunk] = []
        self.out_bytes = 0
        self.held = 0
        self._connection = connection
        self._transport = transport

    def send(self, chunks: list[Chunk]) -> None:
        """Let an answer leave with the next write. No slot may be before it."""
        self.out += chunks
        self.out_bytes += sum(map(len, chunks))

    def flush(self) -> bool:
        """Pass the answers to the transport; return whether more requests would be too many."""
        transport = self._transport
        if self.out:
            chunks, self.out, self.out_bytes = self.out, [], 0
            transport.send_chunks(chunks)
        return (
            transport.unsent_bytes > UNSENT_BYTES_MAX
            or transport.unsent_chunks > OUT_CHUNKS_MAX
            or len(self.slots) >= self.slots_max
        )

    # -- slots ---------------------------------------------------------------------------------------------------

    def take_slot(self, route: ResponseEncoder, correlation_id: int, held: int) -> ResponseSlot:
        slot = ResponseSlot(self, route, correlation_id, held)
        self.slots.append(slot)
        self.held += held
        return slot

    @property
    def is_full(self) -> bool:
        return len(self.slots) >= self.slots_max

    def answer_failed(self, slot: ResponseSlot, failure: Failure) -> None:
        self.answer_ready(slot, self.failed(slot.route, failure))

    def answer_ready(self, slot: ResponseSlot, answer: Any) -> None:
        """Encode, in slices if the answer is long; None stands for no answer."""
        chunks = [] if answer is None else self.encode(slot.route, slot.correlation_id, answer)
        if chunks is None:
            self.encode_in_slices(slot, answer)
        else:
            self.answer_encoded(slot, chunks)

    def encode_in_slices(self, slot: ResponseSlot, answer: Any) -> None:
        slot.await_encoding(self._connection.run_in_slices(slot.route.encode_in_steps(slot.correlation_id, answer)))

    def answer_encoded(self, slot: ResponseSlot, chunks: list[Chunk]) -> None:
        slots = self.slots
        slot.work, slot.chunks = None, chunks
        if slots[0] is not slot:
            self._hold_chunks(slot, chunks)
        while slots and slots[0].chunks is not None:
            first = slots.popleft()
            if first.measured is not None:
                first.measured.end()
            self.held -= first.held
            self.send(first.chunks or [])
        self._connection.answers_ready()

    def _hold_chunks(self, slot: ResponseSlot, chunks: list[Chunk]) -> None:
        """Count the memory of an answer that waits for earlier ones, instead of its request's."""
        size = sum([len(chunk) for chunk in chunks if isinstance(chunk, BUFFERS)])
        self.held += size - slot.held
        slot.held = size

    # -- encoding ------------------------------------------------------------------------------------------------

    def encode(self, route: ResponseEncoder, correlation_id: int, answer: Any) -> list[Chunk] | None:
        """Count the error, and encode; return None for a long answer. Close the connection if that fails."""
        if route.has_error_code and answer.error_code:
            route.errors[answer.error_code] += 1
        try:
            return route.encode_if_short(correlation_id, answer, _ENCODE_INLINE_STRUCTS_MAX)
        except EncodingError:
            self.answer_broken(Failure())
            return []

    def failed(self, route: ResponseEncoder, failure: Failure) -> Any:
        """Return the answer to a failed request, or None after closing."""
        error = failure.value
        if isinstance(error, ProtocolViolation):
            self._connection.violated(str(error))
            return None
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        if not isinstance(error, KafkaError):
            log.failure("{api} of {peer} failed", failure, api=route.name, peer=self._connection.peer)
        if not route.has_error_code:
            route.errors[code] += 1
            self._connection.close_because(f"{route.name} cannot be answered: {error}")
            return None
        return route.response_type(error_code=code)

    def answer_broken(self, failure: Failure) -> None:
        """Close the connection: a request was carried out, and its answer cannot be sent."""
        if failure.check(EncodingError):
            reason = f"a request was carried out, but its answer cannot be sent: {failure.value}"
            self._connection.violated(reason)
        else:
            log.failure("an answer could not be sent to {peer}", failure, peer=self._connection.peer)
            self._connection.close_because("an answer could not be sent")

    def leave(self, memory: MemoryLimit) -> int:
        """Drop the answers of a lost connection; return the bytes that stay in use until changes are done."""
        self._connection = _GONE
        slots = list(self.slots)
        self.slots.clear()
        self.held = 0
        return sum([slot.detach(memory) for slot in slots])
