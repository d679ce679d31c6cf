"""ShareFetch and ShareAcknowledge on one broker: sessions, waits, acknowledgements, locks and restarts."""

from __future__ import annotations

from unittest.mock import patch
from uuid import UUID

from twisted.internet.defer import Deferred

from pylogbroker.broker.share.led_partition import LedSharePartition
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.delta import ConfigChanged, Delta
from pylogbroker.metadata.image import group_resource
from tests.broker.nodes import NodeTests
from tests.broker.share_members import ACCEPT, REJECT, RELEASE, RENEW, ShareMember, acquired, offsets
from tests.broker.trees import now

NONE = ErrorCode.NONE


class ShareTests(NodeTests):
    settings = {
        "share.coordinator.state.topic.num.partitions": "3",
        "group.share.record.lock.duration.ms": "15000",
    }
    earliest = {"share.auto.offset.reset": "earliest"}

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)
        self.set_group(**self.earliest)

    def set_group(self, group: str = "g", **settings: str) -> None:
        texts = {name.replace("_", "."): text for name, text in settings.items()}
        change = ConfigChanged(group_resource(group), texts)
        now(self.node.broker.metadata.publish(Delta.of(change)))

    @property
    def topic(self) -> UUID:
        return self.node.broker.metadata.topics["t"].id

    @property
    def p0(self) -> tuple[UUID, int]:
        return self.topic, 0

    def produce(self, count: int, index: int = 0, batches: int = 1) -> None:
        for _ in range(batches):
            self.node.produce("t", index, *([1000] * count))

    def member(self, name: str = "m", **more: object) -> ShareMember:
        return ShareMember(self.node, name, **more)  # type: ignore[arg-type]

    def joined(self, name: str = "m", **more: object) -> ShareMember:
        """A member with a session that has partition 0, and no records yet."""
        member = self.member(name, **more)
        records_max, member.records_max = member.records_max, 0
        self.assertEqual(member.fetch(self.p0).error_code, NONE)
        member.records_max = records_max
        return member


class ShareFetchTests(ShareTests):
    def test_members_get_different_records(self) -> None:
        self.produce(10, batches=2)
        first, second = self.member("a", records_max=5), self.member("b", records_max=5)
        self.assertEqual(acquired(first.fetch(self.p0)), {0: [(0, 9, 1)]})
        self.assertEqual(acquired(second.fetch(self.p0)), {0: [(10, 19, 1)]})
        self.assertEqual(acquired(first.fetch()), {})

    def test_answer_has_the_records_that_were_acquired(self) -> None:
        self.produce(3, batches=4)
        self.assertEqual(offsets(self.member(records_max=6).fetch(self.p0)), list(range(6)))

    def test_exact_limit_is_not_exceeded(self) -> None:
        self.produce(10)
        self.assertEqual(acquired(self.member(records_max=4, is_exact=True).fetch(self.p0)), {0: [(0, 3, 1)]})
        self.assertEqual(acquired(self.member("b", records_max=4, version=1).fetch(self.p0)), {0: [(4, 9, 1)]})

    def test_accepted_records_are_not_delivered_again(self) -> None:
        self.produce(10)
        member = self.member()
        member.fetch(self.p0)
        self.assertEqual(member.acknowledge(self.p0, (0, 4, ACCEPT), (5, 9, RELEASE)), NONE)
        self.assertEqual(acquired(self.member("b").fetch(self.p0)), {0: [(5, 9, 2)]})

    def test_acknowledgements_of_a_fetch_count_before_its_read(self) -> None:
        self.produce(4)
        member = self.member()
        member.fetch(self.p0)
        answer = member.fetch(acknowledge={self.p0: [(0, 1, RELEASE), (2, 3, ACCEPT)]})
        self.assertEqual(acquired(answer), {0: [(0, 1, 2)]})

    def test_record_is_archived_after_its_last_delivery(self) -> None:
        self.produce(1)
        member = self.joined()
        for count in range(1, 6):
            self.assertEqual(acquired(member.fetch()), {0: [(0, 0, count)]})
            self.assertEqual(member.acknowledge(self.p0, (0, 0, RELEASE)), NONE)
        self.assertEqual(acquired(member.fetch()), {})

    def test_rejected_records_are_not_delivered_again_after_a_restart(self) -> None:
        self.produce(4)
        member = self.member()
        member.fetch(self.p0)
        member.acknowledge(self.p0, (0, 1, REJECT))
        self.restart()
        self.set_group(**self.earliest)
        self.assertEqual(acquired(self.member().fetch(self.p0)), {0: [(2, 3, 1)]})

    def test_delivery_counts_survive_a_restart(self) -> None:
        self.produce(2)
        member = self.member()
        member.fetch(self.p0)
        member.acknowledge(self.p0, (0, 0, RELEASE))
        self.restart()
        self.set_group(**self.earliest)
        self.assertEqual(acquired(self.member().fetch(self.p0)), {0: [(0, 0, 2), (1, 1, 1)]})

    def test_records_of_others_cannot_be_acknowledged(self) -> None:
        self.produce(4)
        self.member("a").fetch(self.p0)
        other = self.joined("b")
        self.assertEqual(other.acknowledge(self.p0, (0, 3, ACCEPT)), ErrorCode.INVALID_RECORD_STATE)

    def test_lock_expires(self) -> None:
        self.produce(4)
        self.member("a").fetch(self.p0)
        other = self.joined("b")
        self.node.clock.advance(14.9)
        self.assertEqual(acquired(other.fetch()), {})
        self.node.clock.advance(0.2)
        self.assertEqual(acquired(other.fetch()), {0: [(0, 3, 2)]})

    def test_renewed_lock_lasts_longer(self) -> None:
        self.produce(4)
        member, other = self.member("a"), self.joined("b")
        member.fetch(self.p0)
        self.node.clock.advance(10)
        member.is_renewal = True
        self.assertEqual(acquired(member.fetch(acknowledge={self.p0: [(0, 1, RENEW)]})), {})
        self.node.clock.advance(6)
        self.assertEqual(acquired(other.fetch()), {0: [(2, 3, 2)]})
        self.assertEqual(member.acknowledge(self.p0, (0, 1, ACCEPT)), NONE)

    def test_renewal_needs_a_request_that_renews_and_a_group_that_allows_it(self) -> None:
        self.produce(4)
        member = self.member()
        member.fetch(self.p0)
        self.assertEqual(member.acknowledge(self.p0, (0, 3, RENEW)), ErrorCode.INVALID_REQUEST)
        member.is_renewal = True
        self.set_group(**self.earliest, **{"share.renew.acknowledge.enable": "false"})
        self.assertEqual(member.acknowledge(self.p0, (0, 3, RENEW)), ErrorCode.INVALID_REQUEST)

    def test_records_in_flight_are_bounded(self) -> None:
        self.set_group(**self.earliest, **{"share.partition.max.record.locks": "100"})
        self.produce(60, batches=3)
        member = self.member(is_exact=True)
        self.assertEqual(offsets(member.fetch(self.p0)), list(range(100)))
        self.assertEqual(acquired(self.member("b").fetch(self.p0)), {})
        member.acknowledge(self.p0, (0, 9, ACCEPT))
        self.assertEqual(offsets(member.fetch()), list(range(100, 110)))

    def test_batches_are_acquired_whole_below_the_limit_of_locks(self) -> None:
        self.set_group(**self.earliest, **{"share.partition.max.record.locks": "100"})
        self.produce(60, batches=3)
        member = self.member()
        self.assertEqual(offsets(member.fetch(self.p0)), list(range(120)))
        member.acknowledge(self.p0, (0, 19, ACCEPT))
        self.assertEqual(acquired(member.fetch()), {})
        member.acknowledge(self.p0, (20, 20, ACCEPT))
        self.assertEqual(offsets(member.fetch()), list(range(120, 180)))

    def test_group_begins_at_the_end_and_stays_there_after_a_restart(self) -> None:
        self.set_group()
        self.produce(4)
        self.assertEqual(acquired(self.member().fetch(self.p0)), {})
        self.produce(2)
        self.restart()
        self.assertEqual(offsets(self.member().fetch(self.p0)), [4, 5])

    def test_group_begins_at_a_time(self) -> None:
        at_ms = self.node.broker.runtime.now_ms()
        self.node.produce("t", 0, at_ms - 7_200_000)
        self.node.produce("t", 0, at_ms - 1_800_000, at_ms)
        self.set_group(**{"share.auto.offset.reset": "by_duration:PT1H"})
        self.assertEqual(offsets(self.member().fetch(self.p0)), [1, 2])

    def test_records_that_retention_deleted_are_skipped(self) -> None:
        self.produce(2, batches=3)
        member = self.member(records_max=1)
        member.fetch(self.p0)
        partition = self.node.broker.partitions.find("t", 0)
        partition.delete_records_before(3)
        self.assertEqual(offsets(member.fetch()), [3])
        self.assertEqual(member.acknowledge(self.p0, (0, 3, ACCEPT)), NONE)
        self.assertEqual(offsets(member.fetch()), [4, 5])

    def test_partition_that_had_records_is_read_last(self) -> None:
        self.produce(2, batches=2)
        self.produce(2, index=1, batches=2)
        member = self.member(records_max=2)
        self.assertEqual([list(acquired(member.fetch(self.p0, (self.topic, 1))))], [[0]])
        self.assertEqual([list(acquired(member.fetch())) for _ in range(3)], [[1], [0], [1]])


class ShareSessionTests(ShareTests):
    def test_first_answer_names_all_partitions(self) -> None:
        response = self.member().fetch(self.p0, (self.topic, 1))
        self.assertEqual([len(topic.partitions) for topic in response.responses], [2])
        self.assertEqual(response.acquisition_lock_timeout_ms, 15_000)

    def test_wrong_sessions_and_epochs(self) -> None:
        member = self.member()
        member.epoch = 1
        self.assertEqual(member.fetch(self.p0).error_code, ErrorCode.SHARE_SESSION_NOT_FOUND)
        self.assertEqual(self.member(epoch=-1).fetch().error_code, ErrorCode.SHARE_SESSION_NOT_FOUND)
        self.assertEqual(member.acknowledge(self.p0), ErrorCode.SHARE_SESSION_NOT_FOUND)
        member.epoch = 0
        member.fetch(self.p0)
        member.epoch = 5
        self.assertEqual(member.fetch().error_code, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        member.epoch = 0
        self.assertEqual(member.acknowledge(self.p0), ErrorCode.INVALID_SHARE_SESSION_EPOCH)

    def test_session_belongs_to_its_connection(self) -> None:
        member = self.joined()
        other = self.member(epoch=member.epoch)
        self.assertEqual(other.fetch().error_code, ErrorCode.SHARE_SESSION_NOT_FOUND)

    def test_request_without_group_or_member_is_rejected(self) -> None:
        for member in (self.member(""), self.member(group="")):
            self.assertEqual(member.fetch(self.p0).error_code, ErrorCode.INVALID_REQUEST)
            self.assertEqual(member.acknowledge(self.p0), ErrorCode.INVALID_REQUEST)

    def test_session_does_not_begin_with_acknowledgements(self) -> None:
        answer = self.member().fetch(acknowledge={self.p0: [(0, 0, ACCEPT)]})
        self.assertEqual(answer.error_code, ErrorCode.INVALID_REQUEST)

    def test_sessions_are_bounded(self) -> None:
        self.node.broker.share_groups.sessions.sessions_max = 1
        self.joined("a")
        self.assertEqual(self.member("b").fetch(self.p0).error_code, ErrorCode.SHARE_SESSION_LIMIT_REACHED)

    def test_partitions_of_all_sessions_together_are_bounded(self) -> None:
        unknown = [(UUID(int=number), 0) for number in range(1, 4)]
        with patch("pylogbroker.broker.share.service.PARTITIONS_MAX", 4):
            self.assertEqual(self.member("a").fetch(*unknown).error_code, NONE)
            self.assertEqual(self.member("b").fetch(*unknown).error_code, ErrorCode.SHARE_SESSION_LIMIT_REACHED)
            self.assertEqual(self.member("a").fetch(*unknown).error_code, NONE)  # instead of its former session
            self.assertEqual(self.member("b").fetch(self.p0).error_code, NONE)

    def test_end_of_a_session_releases(self) -> None:
        self.produce(4)
        member, other = self.member("a"), self.joined("b")
        member.fetch(self.p0)
        self.assertEqual(member.leave().error_code, NONE)
        self.assertEqual(acquired(other.fetch()), {0: [(0, 3, 2)]})

    def test_partitions_may_be_rotated_while_the_end_of_a_session_releases(self) -> None:
        self.produce(10)
        self.member("a").fetch(self.p0, (self.topic, 1))
        groups = self.node.broker.share_groups
        session = groups.sessions.find("g", "a")
        assert session is not None
        stored: Deferred[None] = Deferred()
        release = LedSharePartition.release

        async def release_late(led: LedSharePartition, member: str) -> None:
            await stored
            await release(led, member)

        with patch.object(LedSharePartition, "release", release_late):
            groups.end_session(session)
            for partition in tuple(session.partitions):
                session.rotate(partition)
            stored.callback(None)
        self.assertEqual(groups.partitions.entered, 0)
        self.assertEqual(acquired(self.member("b").fetch(self.p0)), {0: [(0, 9, 2)]})

    def test_last_fetch_acknowledges_and_releases(self) -> None:
        self.produce(4)
        member, other = self.member("a"), self.joined("b")
        member.fetch(self.p0)
        member.epoch = -1
        self.assertEqual(acquired(member.fetch(acknowledge={self.p0: [(0, 1, ACCEPT)]})), {})
        self.assertEqual(acquired(other.fetch()), {0: [(2, 3, 2)]})

    def test_lost_connection_releases(self) -> None:
        self.produce(4)
        member, other = self.member("a"), self.joined("b")
        member.fetch(self.p0)
        member.caller.leave()
        self.assertEqual(acquired(other.fetch()), {0: [(0, 3, 2)]})

    def test_new_session_of_a_member_releases_what_the_former_one_acquired(self) -> None:
        self.produce(4)
        member = self.member()
        member.fetch(self.p0)
        member.epoch = 0
        self.assertEqual(acquired(member.fetch(self.p0)), {0: [(0, 3, 2)]})

    def test_forgotten_partition_is_not_fetched(self) -> None:
        self.produce(1)
        self.produce(1, index=1)
        member = self.member(records_max=0)
        member.fetch(self.p0, (self.topic, 1))
        member.records_max = 10
        self.assertEqual(list(acquired(member.fetch(forget=[self.p0]))), [1])

    def test_state_of_a_group_that_left_is_read_again(self) -> None:
        """Tools may have changed it meanwhile."""
        self.produce(4)
        member = self.member()
        member.fetch(self.p0)
        member.acknowledge(self.p0, (0, 3, ACCEPT))
        member.leave()
        self.assertEqual(len(self.node.broker.share_groups.partitions), 0)
        persister = self.node.broker.share_states.persister
        self.assertEqual(now(Deferred.fromCoroutine(persister.initialize("g", 1, {self.p0: 2}))), {self.p0: NONE})
        self.assertEqual(acquired(self.member().fetch(self.p0)), {0: [(2, 3, 1)]})


class ShareErrorTests(ShareTests):
    def error(self, *partitions: tuple[UUID, int]) -> int:
        [topic] = self.member().fetch(*partitions).responses
        return topic.partitions[0].error_code

    def test_unknown_partitions(self) -> None:
        self.assertEqual(self.error((UUID(int=99), 0)), ErrorCode.UNKNOWN_TOPIC_ID)
        self.assertEqual(self.error((self.topic, 9)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.assertEqual(self.joined().acknowledge((UUID(int=99), 0), (0, 0, ACCEPT)), ErrorCode.UNKNOWN_TOPIC_ID)

    def test_acknowledgements_that_are_wrong(self) -> None:
        self.produce(4)
        member = self.member()
        member.fetch(self.p0)
        invalid = (
            [(3, 0, ACCEPT)],
            [(0, 1, 9)],
            [(0, 1, -1)],
            [(2, 3, ACCEPT), (0, 1, ACCEPT)],
            [(-1, 2, ACCEPT)],
        )
        for batches in invalid:
            self.assertEqual(member.acknowledge(self.p0, *batches), ErrorCode.INVALID_REQUEST, batches)
        self.assertEqual(member.acknowledge(self.p0, (0, 9, ACCEPT)), ErrorCode.INVALID_RECORD_STATE)
        self.assertEqual(member.acknowledge(self.p0, (0, 3, ACCEPT)), NONE)
        self.assertEqual(member.acknowledge(self.p0, (0, 3, ACCEPT)), NONE)  # before the start: forgotten

    def test_deleted_topic_ends_its_share_partitions(self) -> None:
        self.produce(4)
        member = self.member()
        member.fetch(self.p0)
        waiting = member.fetch_later(wait_ms=10_000)
        topic = self.topic
        now(self.node.broker.controller.delete_topic("t"))
        self.node.clock.advance(0)
        [answer] = now(waiting).responses
        self.assertEqual(answer.partitions[0].error_code, ErrorCode.UNKNOWN_TOPIC_ID)
        self.assertEqual(member.acknowledge((topic, 0), (0, 3, ACCEPT)), ErrorCode.UNKNOWN_TOPIC_ID)
        self.assertEqual(len(self.node.broker.share_groups.partitions), 0)


class ShareWaitTests(ShareTests):
    def wait(self, member: ShareMember, wait_ms: int = 1000) -> Deferred[object]:
        waiting: Deferred[object] = member.fetch_later(wait_ms=wait_ms)
        self.assertNoResult(waiting)
        return waiting

    def answer(self, waiting: Deferred[object]) -> list[int]:
        self.node.clock.advance(0)
        return offsets(self.successResultOf(waiting))  # type: ignore[arg-type]

    def test_wait_ends_with_the_time(self) -> None:
        waiting = self.wait(self.joined())
        self.node.clock.advance(0.99)
        self.assertNoResult(waiting)
        self.node.clock.advance(0.02)
        self.assertEqual(self.answer(waiting), [])

    def test_append_wakes_one_member(self) -> None:
        first, second = self.wait(self.joined("a")), self.wait(self.joined("b"))
        self.produce(1)
        self.assertEqual(self.answer(first), [0])
        self.assertNoResult(second)
        self.produce(1)
        self.assertEqual(self.answer(second), [1])

    def test_records_that_one_member_leaves_wake_the_next(self) -> None:
        first = self.wait(self.joined("a", records_max=2))
        second = self.wait(self.joined("b", records_max=2))
        self.produce(2, batches=2)
        self.assertEqual((self.answer(first), self.answer(second)), ([0, 1], [2, 3]))

    def test_released_records_wake(self) -> None:
        self.produce(2)
        holder, other = self.member("a"), self.joined("b")
        holder.fetch(self.p0)
        waiting = self.wait(other)
        holder.acknowledge(self.p0, (0, 0, RELEASE))
        self.assertEqual(self.answer(waiting), [0])

    def test_expired_locks_wake(self) -> None:
        self.produce(2)
        self.member("a").fetch(self.p0)
        waiting = self.wait(self.joined("b"), 20_000)
        self.node.clock.advance(15.1)
        self.assertEqual(self.answer(waiting), [0, 1])

    def test_acknowledgements_that_free_locks_wake(self) -> None:
        self.set_group(**self.earliest, **{"share.partition.max.record.locks": "100"})
        self.produce(60, batches=3)
        holder = self.member("a")
        holder.fetch(self.p0)
        waiting = self.wait(self.joined("b"))
        holder.acknowledge(self.p0, (0, 20, ACCEPT))
        self.assertEqual(self.answer(waiting), list(range(120, 180)))

    def fetch_again_after(self, seconds: float, min_bytes: int = 1) -> tuple[list[int], list[int]]:
        """Let a member hold all records that may be in flight while another waits, then accept them and fetch again.

        Return what both have got.
        """
        self.set_group(**self.earliest, **{"share.partition.max.record.locks": "100"})
        self.produce(100, batches=2)
        holder = self.member("a")
        holder.fetch(self.p0)
        waiting = self.wait(self.joined("b", min_bytes=min_bytes))
        self.node.clock.advance(seconds)
        again = holder.fetch_later(acknowledge={self.p0: [(0, 99, ACCEPT)]}, wait_ms=1000)
        self.node.clock.advance(0)
        return [offsets(now(fetch)) if fetch.called else [] for fetch in (again, waiting)]  # type: ignore[return-value]

    def test_fetch_that_begins_takes_records_first(self) -> None:
        self.assertEqual(self.fetch_again_after(0.01), [list(range(100, 200)), []])

    def test_fetch_that_has_waited_for_long_takes_records_first(self) -> None:
        self.assertEqual(self.fetch_again_after(0.1), [[], list(range(100, 200))])

    def test_fetch_that_waits_for_more_bytes_stops_no_other(self) -> None:
        self.assertEqual(self.fetch_again_after(0.1, min_bytes=1 << 20), [list(range(100, 200)), []])

    def test_members_that_all_fetch_get_equal_shares(self) -> None:
        self.set_group(**self.earliest, **{"share.partition.max.record.locks": "100"})
        self.produce(100, batches=30)
        members = {name: self.joined(name) for name in "abc"}
        waiting = {name: member.fetch_later(wait_ms=60_000) for name, member in members.items()}
        got = dict.fromkeys(members, 0)
        for _ in range(30):
            self.node.clock.advance(0.06)
            [name] = [name for name, fetch in waiting.items() if fetch.called]
            accepted = offsets(now(waiting[name]))
            got[name] += len(accepted)
            batch = (accepted[0], accepted[-1], ACCEPT)
            waiting[name] = members[name].fetch_later(acknowledge={self.p0: [batch]}, wait_ms=60_000)
            self.node.clock.advance(0)
        self.assertEqual(got, dict.fromkeys("abc", 1000))

    def test_fetch_waits_for_min_bytes(self) -> None:
        member = self.joined(min_bytes=150)
        waiting = self.wait(member)
        self.produce(1)
        self.node.clock.advance(0)
        self.assertNoResult(waiting)
        self.produce(1)
        self.produce(1)
        self.assertEqual(self.answer(waiting), [0, 1, 2])
        waiting = self.wait(member)
        self.produce(1)
        self.node.clock.advance(1.1)
        self.assertEqual(self.answer(waiting), [3])

    def test_lost_connection_ends_the_wait_and_acquires_nothing(self) -> None:
        member, other = self.joined("a"), self.joined("b")
        waiting = self.wait(member)
        member.caller.leave()
        self.produce(1)
        self.assertEqual(self.answer(waiting), [])
        self.assertEqual(acquired(other.fetch()), {0: [(0, 0, 1)]})

    def test_stop_of_the_broker_answers(self) -> None:
        waiting = self.wait(self.joined())
        self.node.broker.share_groups.close()
        self.assertEqual(self.answer(waiting), [])
