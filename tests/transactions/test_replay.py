"""Starting again: what is stored comes back, and what was decided is carried out."""

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import at_once
from pylogbroker.records import Codec, Record, build, entries
from pylogbroker.transactions import TransactionSettings, TransactionState, record_schema
from pylogbroker.transactions.metadata import TransactionMetadata
from tests.transactions.harness import SETTINGS, T0, TIMEOUT, U0, Harness, harness_with_epoch

E = ErrorCode


def log(*pairs: tuple[bytes | None, bytes | None], codec: Codec = Codec.NONE) -> bytes:
    return build([Record(index, 5, key, value) for index, (key, value) in enumerate(pairs)], codec=codec)


class TestEveryStateComesBack:
    @pytest.mark.parametrize("label", ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort"])
    def test_stable_states_are_restored(self, label: str) -> None:
        harness = Harness()
        harness.in_state(label)
        other = harness.restarted()
        assert other.coordinator.describe("x") == harness.coordinator.describe("x")
        assert other.log_port.markers == []

    @pytest.mark.parametrize("committed", [True, False])
    def test_a_decided_transaction_is_completed(self, committed: bool) -> None:
        harness = Harness()
        pair = harness.in_state("PrepareCommit" if committed else "PrepareAbort")
        harness.log_port.marker_errors.clear()
        other = harness.restarted(coordinator_epoch=9)
        (marker,) = other.log_port.markers
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (*pair, 9)
        assert (marker.committed, marker.partitions) == (committed, (T0, U0))
        assert other.state() == ("CompleteCommit" if committed else "CompleteAbort")

    def test_a_partly_marked_transaction_is_completed(self) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.log_port.marker_errors[U0] = E.NOT_ENOUGH_REPLICAS
        harness.end(pair)
        other = harness.restarted()
        assert other.coordinator.describe("x").partitions == (U0,)
        assert other.init().error is E.CONCURRENT_TRANSACTIONS
        other.log_port.marker_errors.clear()
        other.advance(1_000)
        assert other.state() == "CompleteCommit"
        assert {marker.committed for marker in other.log_port.markers} == {True}

    def test_an_open_transaction_keeps_its_timeout(self) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.advance(TIMEOUT // 2)
        other = harness.restarted()
        other.advance(TIMEOUT // 2)
        assert other.coordinator.verify("x", *pair, [T0]) == {T0: E.NONE}
        other.advance(SETTINGS.abort_interval_ms)
        assert other.state() == "CompleteAbort"
        assert other.now_has() == (pair[0], pair[1] + 1)

    def test_an_overdue_transaction_is_aborted_soon(self) -> None:
        harness = Harness()
        harness.in_state("Ongoing")
        harness.now += 100 * TIMEOUT
        other = harness.restarted()
        other.advance(0)
        assert other.state() == "CompleteAbort"

    def test_a_producer_continues_after_a_replay(self) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        other = harness.restarted()
        assert other.add(pair, [("v", 1)]) is E.NONE
        assert other.end(pair) is E.NONE
        assert other.end(pair) is E.NONE

    def test_unused_ids_expire(self) -> None:
        harness = Harness()
        harness.pair()
        harness.advance(SETTINGS.expiration_ms - 10)
        other = harness.restarted()
        other.advance(SETTINGS.expiration_interval_ms)
        assert other.coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND


class TestReplay:
    key = record_schema.encode_key("x")

    def value(self, epoch: int) -> bytes:
        return record_schema.encode_value(TransactionMetadata(7, epoch, timeout_ms=1))

    def loaded(self, *logs: bytes) -> Harness:
        harness = Harness(loaded=False)
        loading = harness.begin_load(harness.coordinator.partition_for("x"))
        for each in logs:
            loading.replay(entries(each))
        harness.activate(loading)
        return harness

    def test_the_last_record_counts(self) -> None:
        assert self.loaded(log((self.key, self.value(1)), (self.key, self.value(2)))).now_has() == (7, 2)
        assert self.loaded(log((self.key, self.value(1))), log((self.key, self.value(3)))).now_has() == (7, 3)

    def test_a_tombstone_removes(self) -> None:
        harness = self.loaded(log((self.key, self.value(1)), (self.key, None)))
        assert harness.coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND
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
            (key, record_schema.encode_value(TransactionMetadata(7, 1))[:-1]),
            (key, record_schema.encode_value(TransactionMetadata(7, 1, TransactionState.DEAD))),
            (key, record_schema.encode_value(TransactionMetadata(7, 1, TransactionState.PREPARE_EPOCH_FENCE))),
            (key, bytes.fromhex("0000 0000000000000007 0002 0000ea60 08 ffffffff") + bytes(16)),
        ],
    )
    def test_unreadable_records_are_skipped(self, key: bytes | None, value: bytes) -> None:
        harness = Harness(loaded=False)
        whole = log((self.key, self.value(4)), (key, value))
        loading = harness.load(harness.coordinator.partition_for("x"), entries(whole))
        assert len(loading.problems) == 1
        assert "offset 1" in loading.problems[0]
        assert harness.now_has() == (7, 4)

    def test_a_damaged_entry_is_passed_over(self) -> None:
        bad = bytearray(log((self.key, self.value(1))))
        bad[-3] ^= 1
        assert self.loaded(bytes(bad), log((self.key, self.value(2)))).now_has() == (7, 2)


class TestOwnership:
    def test_a_shard_that_is_not_loaded(self) -> None:
        self.everything_is(Harness(loaded=False), E.NOT_COORDINATOR)
        assert at_once(Harness(loaded=False).coordinator.list()).error is E.NONE

    def test_a_loading_shard(self) -> None:
        harness = Harness(loaded=False)
        harness.begin_load(harness.coordinator.partition_for("x"))
        self.everything_is(harness, E.COORDINATOR_LOAD_IN_PROGRESS)
        assert at_once(harness.coordinator.list()).error is E.COORDINATOR_LOAD_IN_PROGRESS

    def test_an_unloaded_shard(self) -> None:
        harness = Harness()
        harness.in_state("Ongoing")
        harness.close()
        self.everything_is(harness, E.NOT_COORDINATOR)
        assert harness.runtime.next_deadline() is None

    def everything_is(self, harness: Harness, error: ErrorCode) -> None:
        assert harness.init().error is error
        assert harness.add((1, 0)) is error
        assert harness.end((1, 0)) is error
        assert harness.coordinator.verify("x", 1, 0, [T0]) == {T0: error}
        assert harness.coordinator.describe("x").error is error

    def test_unloaded_while_loading(self) -> None:
        harness = Harness(loaded=False)
        partition = harness.coordinator.partition_for("x")
        loading = harness.begin_load(partition)
        harness.unload(partition)
        harness.activate(loading)
        assert harness.init().error is E.NOT_COORDINATOR

    def test_decided_transactions_bar_their_producers_from_the_first_step_on(self) -> None:
        """Their shard is served before all markers are asked for."""
        before = Harness(TransactionSettings(partitions=1))
        pairs = {name: before.in_state("PrepareCommit", name) for name in "abc"}
        harness = Harness(before.coordinator.settings, loaded=False)
        harness.log_port.marker_errors = before.log_port.marker_errors
        replay = harness.begin_load(0)
        replay.replay(entries(b"".join(before.log_port.batches[0])))
        steps = harness.runtime.activate(replay, 0).__await__()
        errors = [{harness.add(pairs[name], name=name) for name in "abc"} for _ in steps]
        assert errors[:3] == [{E.COORDINATOR_LOAD_IN_PROGRESS}] * 3
        assert errors[3:] == [{E.CONCURRENT_TRANSACTIONS}] * (len(errors) - 3)
        assert [marker.partitions for marker in harness.log_port.markers] == [(T0, U0)] * 3

    @pytest.mark.parametrize("steps", [0, 1])
    def test_unloaded_while_a_new_producer_waits(self, steps: int) -> None:
        harness = Harness()
        harness.log_port.hold()
        answer = harness.ask_init()
        for _ in range(steps):
            harness.log_port.step()
        harness.close()
        harness.log_port.release()
        assert answer.value.error is E.NOT_COORDINATOR
        assert len(harness.log()) == steps  # the record was under way already

    def test_unloaded_while_a_new_id_is_awaited(self) -> None:
        harness = harness_with_epoch(32_766)
        harness.log_port.hold()
        answer = harness.ask_init()
        harness.close()
        harness.log_port.release()
        assert answer.value.error is E.NOT_COORDINATOR
        assert len(harness.log()) == 1

    def test_unloaded_while_an_end_is_being_stored(self) -> None:
        """The decision holds, and the next coordinator of the partition carries it out."""
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.log_port.hold()
        answer = harness.ask_end(pair)
        harness.close()
        harness.log_port.release()
        assert answer.value is E.NOT_COORDINATOR
        assert harness.log_port.markers == []
        other = harness.restarted()
        assert (other.state(), [each.committed for each in other.log_port.markers]) == ("CompleteCommit", [True])

    @pytest.mark.parametrize("marked", [E.NONE, E.NOT_ENOUGH_REPLICAS])
    def test_unloaded_while_markers_are_written(self, marked: ErrorCode) -> None:
        """The coordinator that loads it writes them again. No other may report them written, or retry."""
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.log_port.hold()
        harness.ask_end(pair)
        harness.log_port.step()
        harness.close()
        before = len(harness.log())
        harness.log_port.marker_errors = dict.fromkeys((T0, U0), marked)
        harness.log_port.release()
        assert len(harness.log()) == before
        assert harness.runtime.next_deadline() is None
        harness.log_port.marker_errors = {}
        assert harness.restarted().state() == "CompleteCommit"

    def test_unloaded_while_the_completion_is_stored(self) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.log_port.hold()
        harness.ask_end(pair)
        harness.log_port.step()
        harness.log_port.step()
        harness.close()
        harness.log_port.error = E.NOT_ENOUGH_REPLICAS
        harness.log_port.release()
        assert harness.runtime.next_deadline() is None
        assert harness.restarted().state() == "CompleteCommit"

    def test_unloaded_and_loaded_again(self) -> None:
        """Answers that the first load waited for do not affect the second."""
        harness = Harness()
        harness.in_state("Empty")
        partition = harness.coordinator.partition_for("x")
        harness.log_port.hold()
        answer = harness.ask_add((1000, 0))
        harness.unload(partition)
        harness.load(partition, entries(b"".join(harness.log_port.batches[partition])))
        harness.log_port.release()
        assert answer.value is E.NOT_COORDINATOR
        assert harness.state() == "Empty"

    def test_unloaded_while_an_id_expires(self) -> None:
        harness = Harness()
        harness.pair()
        harness.log_port.hold()
        harness.advance(SETTINGS.expiration_ms + SETTINGS.expiration_interval_ms)
        harness.close()
        harness.log_port.release()
        assert harness.restarted().coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND
