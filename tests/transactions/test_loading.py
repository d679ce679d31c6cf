"""Starting again: what is stored comes back, and what was decided is carried out."""

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.records import Codec, Record, build, entries
from pylogbroker.transactions import TransactionState, layout
from pylogbroker.transactions.metadata import Metadata
from tests.transactions.rooms import SETTINGS, T0, TIMEOUT, U0, Table, with_epoch

E = ErrorCode


def log(*pairs: tuple[bytes | None, bytes | None], codec: Codec = Codec.NONE) -> bytes:
    return build([Record(index, 5, key, value) for index, (key, value) in enumerate(pairs)], codec=codec)


class TestEveryStateComesBack:
    @pytest.mark.parametrize("label", ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort"])
    def test_as_it_was(self, label: str) -> None:
        table = Table()
        table.in_state(label)
        other = table.restarted()
        assert other.coordinator.describe("x") == table.coordinator.describe("x")
        assert other.store.markers == []

    @pytest.mark.parametrize("committed", [True, False])
    def test_what_was_decided_is_carried_out(self, committed: bool) -> None:
        table = Table()
        pair = table.in_state("PrepareCommit" if committed else "PrepareAbort")
        table.store.marker_errors.clear()
        other = table.restarted(coordinator_epoch=9)
        (marker,) = other.store.markers
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (*pair, 9)
        assert (marker.committed, marker.partitions) == (committed, (T0, U0))
        assert other.state() == ("CompleteCommit" if committed else "CompleteAbort")

    def test_also_if_some_markers_were_written_before(self) -> None:
        table = Table()
        pair = table.in_state("Ongoing")
        table.store.marker_errors[U0] = E.NOT_ENOUGH_REPLICAS
        table.end(pair)
        other = table.restarted()
        assert other.coordinator.describe("x").partitions == (U0,)
        assert other.init().error is E.CONCURRENT_TRANSACTIONS
        other.store.marker_errors.clear()
        other.advance(1_000)
        assert other.state() == "CompleteCommit"
        assert {marker.committed for marker in other.store.markers} == {True}

    def test_what_goes_on_has_until_its_timeout(self) -> None:
        table = Table()
        pair = table.in_state("Ongoing")
        table.advance(TIMEOUT // 2)
        other = table.restarted()
        other.advance(TIMEOUT // 2)
        assert other.coordinator.verify("x", *pair, [T0]) == {T0: E.NONE}
        other.advance(SETTINGS.abort_interval_ms)
        assert other.state() == "CompleteAbort"
        assert other.now_has() == (pair[0], pair[1] + 1)

    def test_what_should_have_ended_long_ago_ends_soon(self) -> None:
        table = Table()
        table.in_state("Ongoing")
        table.now += 100 * TIMEOUT
        other = table.restarted()
        other.advance(0)
        assert other.state() == "CompleteAbort"

    def test_a_producer_goes_on_where_it_was(self) -> None:
        table = Table()
        pair = table.in_state("Ongoing")
        other = table.restarted()
        assert other.add(pair, [("v", 1)]) is E.NONE
        assert other.end(pair) is E.NONE
        assert other.end(pair) is E.NONE

    def test_what_was_not_used_for_long_is_forgotten(self) -> None:
        table = Table()
        table.pair()
        table.advance(SETTINGS.expiration_ms - 10)
        other = table.restarted()
        other.advance(SETTINGS.expiration_interval_ms)
        assert other.coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND


class TestReplay:
    key = layout.encode_key("x")

    def value(self, epoch: int) -> bytes:
        return layout.encode_value(Metadata(7, epoch, timeout_ms=1))

    def loaded(self, *logs: bytes) -> Table:
        table = Table(loaded=False)
        loading = table.coordinator.begin_load(table.coordinator.partition_for("x"))
        for each in logs:
            loading.replay(entries(each))
        table.coordinator.finish_load(loading, table.now)
        return table

    def test_the_last_record_counts(self) -> None:
        assert self.loaded(log((self.key, self.value(1)), (self.key, self.value(2)))).now_has() == (7, 2)
        assert self.loaded(log((self.key, self.value(1))), log((self.key, self.value(3)))).now_has() == (7, 3)

    def test_a_tombstone_removes(self) -> None:
        table = self.loaded(log((self.key, self.value(1)), (self.key, None)))
        assert table.coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND
        assert self.loaded(log((self.key, None), (self.key, self.value(1)))).now_has() == (7, 1)

    @pytest.mark.parametrize("codec", list(Codec))
    def test_compressed(self, codec: Codec) -> None:
        assert self.loaded(log((self.key, self.value(1)), codec=codec)).now_has() == (7, 1)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (None, b""),
            (b"", b""),
            (b"\0\1\0\1x", b"of a version that is not known"),
            (b"\0\0\0\2x", b"cut off"),
            (key, b""),
            (key, b"\0\2" + bytes(40)),
            (key, layout.encode_value(Metadata(7, 1))[:-1]),
            (key, layout.encode_value(Metadata(7, 1, TransactionState.DEAD))),
            (key, layout.encode_value(Metadata(7, 1, TransactionState.PREPARE_EPOCH_FENCE))),
            (key, bytes.fromhex("0000 0000000000000007 0002 0000ea60 08 ffffffff") + bytes(16)),
        ],
    )
    def test_what_cannot_be_understood_is_passed_over(self, key: bytes | None, value: bytes) -> None:
        table = Table(loaded=False)
        whole = log((self.key, self.value(4)), (key, value))
        loading = table.coordinator.load(table.coordinator.partition_for("x"), entries(whole), table.now)
        assert len(loading.problems) == 1
        assert "offset 1" in loading.problems[0]
        assert table.now_has() == (7, 4)

    def test_a_damaged_entry_is_passed_over(self) -> None:
        bad = bytearray(log((self.key, self.value(1))))
        bad[-3] ^= 1
        assert self.loaded(bytes(bad), log((self.key, self.value(2)))).now_has() == (7, 2)


class TestOwnership:
    def test_what_is_not_owned(self) -> None:
        self.everything_is(Table(loaded=False), E.NOT_COORDINATOR)
        assert Table(loaded=False).coordinator.list().error is E.NONE

    def test_what_is_loading(self) -> None:
        table = Table(loaded=False)
        table.coordinator.begin_load(table.coordinator.partition_for("x"))
        self.everything_is(table, E.COORDINATOR_LOAD_IN_PROGRESS)
        assert table.coordinator.list().error is E.COORDINATOR_LOAD_IN_PROGRESS

    def test_what_was_given_up(self) -> None:
        table = Table()
        table.in_state("Ongoing")
        table.coordinator.close(table.now)
        self.everything_is(table, E.NOT_COORDINATOR)
        assert table.coordinator.next_deadline() is None

    def everything_is(self, table: Table, error: ErrorCode) -> None:
        assert table.init().error is error
        assert table.add((1, 0)) is error
        assert table.end((1, 0)) is error
        assert table.coordinator.verify("x", 1, 0, [T0]) == {T0: error}
        assert table.coordinator.describe("x").error is error

    def test_given_up_while_loading(self) -> None:
        table = Table(loaded=False)
        partition = table.coordinator.partition_for("x")
        loading = table.coordinator.begin_load(partition)
        table.coordinator.unload(partition, table.now)
        table.coordinator.finish_load(loading, table.now)
        assert table.init().error is E.NOT_COORDINATOR

    @pytest.mark.parametrize("steps", [0, 1])
    def test_given_up_while_a_new_producer_waits(self, steps: int) -> None:
        table = Table()
        table.store.hold()
        answer = table.ask_init()
        for _ in range(steps):
            table.store.step()
        table.coordinator.close(table.now)
        table.store.release()
        assert answer.value.error is E.NOT_COORDINATOR
        assert len(table.log()) == steps  # the record was under way already

    def test_given_up_while_a_new_id_is_awaited(self) -> None:
        table = with_epoch(32_766)
        table.store.hold()
        answer = table.ask_init()
        table.coordinator.close(table.now)
        table.store.release()
        assert answer.value.error is E.NOT_COORDINATOR
        assert len(table.log()) == 1

    def test_given_up_while_an_end_is_being_stored(self) -> None:
        """It is decided all the same, and whoever loads the partition next carries it out."""
        table = Table()
        pair = table.in_state("Ongoing")
        table.store.hold()
        answer = table.ask_end(pair)
        table.coordinator.close(table.now)
        table.store.release()
        assert answer.value is E.NOT_COORDINATOR
        assert table.store.markers == []
        other = table.restarted()
        assert (other.state(), [each.committed for each in other.store.markers]) == ("CompleteCommit", [True])

    @pytest.mark.parametrize("marked", [E.NONE, E.NOT_ENOUGH_REPLICAS])
    def test_given_up_while_markers_are_written(self, marked: ErrorCode) -> None:
        """Who loads it writes them again. Nobody else may say that they are all written, or go on trying."""
        table = Table()
        pair = table.in_state("Ongoing")
        table.store.hold()
        table.ask_end(pair)
        table.store.step()
        table.coordinator.close(table.now)
        before = len(table.log())
        table.store.marker_errors = dict.fromkeys((T0, U0), marked)
        table.store.release()
        assert len(table.log()) == before
        assert table.coordinator.next_deadline() is None
        table.store.marker_errors = {}
        assert table.restarted().state() == "CompleteCommit"

    def test_given_up_while_the_completion_is_stored(self) -> None:
        table = Table()
        pair = table.in_state("Ongoing")
        table.store.hold()
        table.ask_end(pair)
        table.store.step()
        table.store.step()
        table.coordinator.close(table.now)
        table.store.error = E.NOT_ENOUGH_REPLICAS
        table.store.release()
        assert table.coordinator.next_deadline() is None
        assert table.restarted().state() == "CompleteCommit"

    def test_given_up_and_owned_again(self) -> None:
        """What the first time was waiting for has no part in the second."""
        table = Table()
        table.in_state("Empty")
        partition = table.coordinator.partition_for("x")
        table.store.hold()
        answer = table.ask_add((1000, 0))
        table.coordinator.unload(partition, table.now)
        table.coordinator.load(partition, entries(b"".join(table.store.batches[partition])), table.now)
        table.store.release()
        assert answer.value is E.NOT_COORDINATOR
        assert table.state() == "Empty"

    def test_given_up_while_one_is_being_forgotten(self) -> None:
        table = Table()
        table.pair()
        table.store.hold()
        table.advance(SETTINGS.expiration_ms + SETTINGS.expiration_interval_ms)
        table.coordinator.close(table.now)
        table.store.release()
        assert table.restarted().coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND
