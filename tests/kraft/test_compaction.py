"""Snapshots of a member: few records that give the same metadata, beside the states that all records give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any
from uuid import UUID

import attrs
import pytest

from pylogbroker.errors import CorruptRecords
from pylogbroker.kraft.compaction import compacted
from pylogbroker.kraft.entities import Entities
from pylogbroker.kraft.fold import MetadataFold
from pylogbroker.kraft.metadata_log import SnapshotContent
from pylogbroker.long_loops import at_once
from pylogbroker.records import Record, build, entries
from pylogbroker.wire.metadata_records import (
    RECORDS,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaSubject,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
    decode_record,
    encode_record,
    record_version,
)
from tests.kraft.logs import visible
from tests.kraft.model_state import ModelState

HERE = 1
ORDERS = UUID(int=501)
LOG_DIRECTORIES = [UUID(int=number) for number in (301, 302, 303)]


def log_of(records: Iterable[MetadataRecord]) -> bytes:
    """Return a log of one batch for each record, as a leader of the newest versions writes it."""
    return b"".join(
        build([Record(0, 1000 + offset, None, encode_record(record, record.versions.last))], base_offset=offset)
        for offset, record in enumerate(records)
    )


def values_in(snapshot: bytes) -> list[bytes]:
    return [bytes(record.value or b"") for batch in SnapshotContent.of(snapshot).batches for record in batch.records()]


def compacted_values(records: Iterable[MetadataRecord]) -> list[bytes]:
    return values_in(b"".join(compacted(entries(log_of(records)), 3)))


def compacted_records(records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
    return [decode_record(value) for value in compacted_values(records)]


def broker(broker_id: int, epoch: int = 7, **fields: Any) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id, False, UUID(int=broker_id), epoch, **fields)


def partition(number: int, topic: UUID = ORDERS, **fields: Any) -> PartitionRecord:
    given = {"replicas": [1, 2], "isr": [1, 2], "leader": 1, "leader_epoch": 0, "partition_epoch": 0} | fields
    return PartitionRecord(number, topic, **given)


class Controllers:
    """Writes records of all kinds, by chance, as controllers might."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.records: list[MetadataRecord] = [FeatureLevelRecord("metadata.version", 33)]
        self.topics: dict[UUID, int] = {}
        self.brokers: dict[int, int] = {}
        self.made = 0
        self.is_in_transaction = False

    def step(self) -> None:
        steps = (self.topic, self.partition, self.partition, self.change, self.change, self.change, self.broker)
        self.chance.choice((*steps, self.broker_change, self.setting, self.other, self.other, self.transaction))()

    def number(self, most: int = 3) -> int:
        return self.chance.randint(1, most)

    def topic(self) -> None:
        if len(self.topics) > 3 and self.chance.random() < 0.5:
            gone = self.chance.choice(list(self.topics))
            del self.topics[gone]
            self.records.append(RemoveTopicRecord(gone))
            return
        self.made += 1
        topic_id = UUID(int=1000 + self.made)
        self.topics[topic_id] = 0
        self.records.append(TopicRecord(f"topic-{self.made}", topic_id))

    def replicas(self) -> list[int]:
        return self.chance.sample(range(1, 6), self.number(3))

    def partition(self) -> None:
        if not self.topics:
            return
        topic_id = self.chance.choice(list(self.topics))
        replicas = self.replicas()
        self.records.append(
            PartitionRecord(
                self.topics[topic_id],
                topic_id,
                replicas,
                replicas[: self.number()],
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[self.chance.choice(LOG_DIRECTORIES) for _ in replicas],
            )
        )
        self.topics[topic_id] += 1

    def change(self) -> None:
        made = [(topic_id, count) for topic_id, count in self.topics.items() if count]
        if not made:
            return
        topic_id, count = self.chance.choice(made)
        record = PartitionChangeRecord(self.chance.randrange(count), topic_id)
        names = (
            "isr",
            "replicas",
            "removing_replicas",
            "adding_replicas",
            "eligible_leader_replicas",
            "last_known_elr",
        )
        for name in self.chance.sample(names, self.number()):
            setattr(record, name, self.replicas() if self.chance.random() < 0.8 or name == "replicas" else [])
        if record.replicas is not None:
            record.directories = [self.chance.choice(LOG_DIRECTORIES) for _ in record.replicas]
        if self.chance.random() < 0.5:
            record.leader = self.chance.choice([-1, *self.replicas()])
        if self.chance.random() < 0.3:
            record.leader_recovery_state = self.chance.randint(0, 1)
        self.records.append(record)

    def broker(self) -> None:
        broker_id = self.number(4)
        if broker_id in self.brokers and self.chance.random() < 0.3:
            self.records.append(UnregisterBrokerRecord(broker_id, self.brokers.pop(broker_id)))
            return
        self.made += 1
        self.brokers[broker_id] = self.made
        self.records.append(broker(broker_id, self.made, log_dirs=LOG_DIRECTORIES[: self.number()]))

    def broker_change(self) -> None:
        if not self.brokers:
            return
        broker_id, epoch = self.chance.choice(list(self.brokers.items()))
        record = BrokerRegistrationChangeRecord(broker_id, epoch, fenced=self.chance.randint(-1, 1))
        if self.chance.random() < 0.2:
            record.in_controlled_shutdown = 1
        if self.chance.random() < 0.2:
            record.log_dirs = LOG_DIRECTORIES[: self.number()]
        self.records.append(record)

    def setting(self) -> None:
        kind = self.chance.choice((2, 4, 8, 16, 32))
        name = str(self.number()) if kind in (4, 8) else f"topic-{self.number(6)}"
        value = None if self.chance.random() < 0.3 else str(self.made)
        self.records.append(ConfigRecord(kind, name, self.chance.choice(("retention.ms", "segment.ms")), value))

    def other(self) -> None:
        number = self.number()
        is_removal = self.chance.random() < 0.3
        entity = [QuotaSubject("user", "bob"), QuotaSubject("client-id", None)][:number]
        self.chance.shuffle(entity)
        token, user, acl = f"token-{number}", f"user-{number}", UUID(int=number)
        pairs: Sequence[tuple[MetadataRecord, MetadataRecord]] = (
            (FeatureLevelRecord(f"feature-{number}", number), FeatureLevelRecord(f"feature-{number}", 0)),
            (ClientQuotaRecord(entity, "rate", float(number)), ClientQuotaRecord(entity, "rate", 0.0, True)),
            (UserScramCredentialRecord(user, 1, b"salt"), RemoveUserScramCredentialRecord(user, 1)),
            (AccessControlEntryRecord(acl, 2, "a", 3, user, "*", 3, 3), RemoveAccessControlEntryRecord(acl)),
            (DelegationTokenRecord("User:a", "User:a", token_id=token), RemoveDelegationTokenRecord(token)),
            (RegisterControllerRecord(number), UnregisterControllerRecord(number)),
            (ProducerIdsRecord(1, 5, 1000 * number), NoOpRecord()),
            (ZkMigrationStateRecord(0), NoOpRecord()),
        )
        self.records.append(self.chance.choice(pairs)[is_removal])

    def transaction(self) -> None:
        """Begin a transaction, write records, and end or abort it, which leaves nothing."""
        before = dict(self.topics), dict(self.brokers)
        self.records.append(BeginTransactionRecord())
        for _ in range(self.number()):
            self.chance.choice((self.topic, self.partition, self.change, self.setting))()
        if self.chance.random() < 0.5:
            self.records.append(EndTransactionRecord())
        else:
            self.records.append(AbortTransactionRecord())
            self.topics, self.brokers = before


@attrs.frozen
class Outcome:
    """Metadata by some records: the model's state, this project's image, and its nodes."""

    model: dict[str, Any]
    image: dict[str, Any]
    nodes: dict[str, Any]

    @classmethod
    def of(cls, records: Sequence[MetadataRecord]) -> Outcome:
        model = ModelState.of(records)
        model.levels = {name: level for name, level in model.levels.items() if level}
        model.settings = {key: settings for key, settings in model.settings.items() if settings}
        fold, entities = MetadataFold(HERE), Entities()
        edits = fold.begin()
        for record in visible(records):
            edits.apply(record)
            entities.apply(record)
        at_once(fold.commit(edits))
        image = {
            "topics": {name: (topic.id, dict(topic.partitions.items())) for name, topic in fold.image.topics.items()},
            "configs": {resource: settings for resource, settings in fold.image.configs.items() if settings},
            "brokers": fold.brokers,
            "directories": fold.directories,
        }
        nodes = {node.path: json.loads(node.data) for node in entities.changed_nodes() if node.data is not None}
        return cls(attrs.asdict(model, recurse=False), image, nodes)


@pytest.mark.parametrize("seed", range(20))
def test_compacted_records_give_the_same_metadata(seed: int) -> None:
    controllers = Controllers(seed)
    for _ in range(150):
        controllers.step()
    few = compacted_records(controllers.records)
    assert Outcome.of(few) == Outcome.of(controllers.records)
    assert len(few) < len(controllers.records)
    assert sorted(map(str, compacted_records(few))) == sorted(map(str, few))


def test_a_snapshot_compacts_together_with_the_log_behind_it() -> None:
    records = [TopicRecord("orders", ORDERS), partition(0), PartitionChangeRecord(0, ORDERS, leader=2)]
    first = b"".join(compacted(entries(log_of(records[:2])), 3))
    whole = values_in(b"".join(compacted(entries(first + log_of(records[2:])), 3)))
    assert whole == compacted_values(records)
    assert [type(decode_record(value)) for value in whole] == [TopicRecord, PartitionRecord]


def test_unchanged_records_stay_as_they_are_and_changed_ones_get_the_newer_version() -> None:
    def value(record: MetadataRecord, version: int) -> bytes:
        return encode_record(record, version)

    written = [
        value(TopicRecord("orders", ORDERS), 0),
        value(partition(0), 0),
        value(partition(1), 0),
        value(partition(2, directories=LOG_DIRECTORIES[:2]), 1),
        value(broker(1), 0),
        value(broker(2), 0),
        value(PartitionChangeRecord(1, ORDERS, isr=[1]), 1),
        value(PartitionChangeRecord(2, ORDERS, isr=[1]), 0),
        value(BrokerRegistrationChangeRecord(2, 7, log_dirs=LOG_DIRECTORIES), 2),
    ]
    log = build([Record(0, 1, None, each) for each in written])
    after = values_in(b"".join(compacted(entries(log), 0)))
    assert written[1] in after
    versions = sorted((type(decode_record(each)).__name__, record_version(each)) for each in after)
    assert [version for name, version in versions if name == "PartitionRecord"] == [0, 1, 1]
    assert [version for name, version in versions if name == "RegisterBrokerRecord"] == [0, 3]


def test_replicas_that_stay_keep_their_directories() -> None:
    first, second, _ = LOG_DIRECTORIES
    records = [
        TopicRecord("orders", ORDERS),
        partition(0, directories=[first, second]),
        PartitionChangeRecord(0, ORDERS, replicas=[2, 3]),
    ]
    [_, after] = compacted_records(records)
    assert isinstance(after, PartitionRecord)
    assert after.directories == [second, UUID(int=0)]


def test_eligible_leaders_are_cleared() -> None:
    other = UUID(int=502)
    records = [TopicRecord("orders", ORDERS), TopicRecord("others", other)]
    records += [partition(0, topic, eligible_leader_replicas=[2], last_known_elr=[1]) for topic in (ORDERS, other)]  # type: ignore[misc]

    def eligible(*more: MetadataRecord) -> list[list[int] | None]:
        after = compacted_records([*records, *more])
        return [record.eligible_leader_replicas for record in after if isinstance(record, PartitionRecord)]

    assert eligible() == [[2], [2]]
    assert eligible(ClearElrRecord("orders")) == [None, [2]]
    assert eligible(ClearElrRecord("")) == [None, None]


def test_fences_of_old_releases_change_the_registration() -> None:
    after = compacted_records([broker(1), broker(2), UnfenceBrokerRecord(1, 7), FenceBrokerRecord(2, 7)])
    assert [record.fenced for record in after if isinstance(record, RegisterBrokerRecord)] == [False, True]


def test_header_and_footer_have_the_time_of_the_last_record_and_the_voters() -> None:
    def control(kind: int, value: bytes) -> bytes:
        return build([Record(0, 5, b"\0\0" + kind.to_bytes(2, "big"), value)], control=True, leader_epoch=1)

    log = control(2, b"leader") + control(6, b"old") + control(5, b"version") + control(6, b"voters")
    whole = b"".join(compacted(entries(log + log_of([TopicRecord("orders", ORDERS)])), 4))
    header, topics, footer = entries(whole)
    assert [batch.base_offset for batch in (header, topics, footer)] == [0, 3, 4]
    assert all(batch.leader_epoch == 4 for batch in (header, topics, footer))
    records = [(bytes(record.key or b""), bytes(record.value or b"")) for record in header.records()]
    assert records == [
        (b"\0\0\0\3", b"\0\0" + (1000).to_bytes(8, "big") + b"\0"),
        (b"\0\0\0\5", b"version"),
        (b"\0\0\0\6", b"voters"),
    ]
    [end] = footer.records()
    assert (end.key, end.value) == (b"\0\0\0\4", b"\0\0\0")


@pytest.mark.parametrize("record", [partition(0), RemoveTopicRecord(ORDERS), BrokerRegistrationChangeRecord(1, 7)])
def test_records_of_what_is_not_known_are_rejected(record: MetadataRecord) -> None:
    with pytest.raises(CorruptRecords, match="which is not known"):
        compacted_records([record])


def test_every_kind_of_record_has_a_rule() -> None:
    """Records of kinds that come later must not be lost in a snapshot."""
    known = [TopicRecord("", UUID(int=0)), broker(0), PartitionRecord(-1, UUID(int=0))]
    for kind in RECORDS.values():
        begin = [BeginTransactionRecord()] if kind in (EndTransactionRecord, AbortTransactionRecord) else []
        compacted_records([*known, *begin, kind()])
