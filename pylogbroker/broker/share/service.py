"""Share groups at the leaders of partitions: sessions, fetches and acknowledgements of members.

request          session                            then
-------------    --------------------------------   --------------------------------------------------
epoch 0          ends a former one, a new one       records are acquired
the next epoch   goes on                            acknowledged, then records are acquired
epoch -1         ends                               acknowledged, then what is acquired is released
lost connection  ends                               what is acquired is released
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs
from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.requests.context import Caller
from pylogbroker.broker.services import Features, LogServices, StoppableFetch
from pylogbroker.broker.share.counts import ShareCounts
from pylogbroker.broker.share.dead_letters import DeadLetters
from pylogbroker.broker.share.delivery_settings import DeliverySettings
from pylogbroker.broker.share.led_partition import LedSharePartition
from pylogbroker.broker.share.led_partitions import LedSharePartitions
from pylogbroker.broker.share.persister import SharePersister
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.share.sessions import ShareSession, ShareSessions, TopicIdPartition
from pylogbroker.groups.share.state_records import SharePartitionKey
from pylogbroker.groups.share.values import Acknowledgement
from pylogbroker.metadata.delta import Delta, TopicDeleted
from pylogbroker.metadata.image import ClusterImage, group_resource

log = Logger()
SHARE_VERSION: Final = "share.version"
PARTITIONS_MAX: Final = 500_000  # as of fetch sessions
_FIRST_WITH_DEAD_LETTERS: Final = 2
_SETTINGS_KEPT_MAX: Final = 1_000


@attrs.frozen(eq=False, repr=False)
class _ParsedSettings:
    """Settings of a group, and what they were parsed from."""

    image: ClusterImage
    level: int
    stored: Mapping[str, str]
    settings: DeliverySettings


@attrs.define(eq=False, repr=False)
class ShareGroupService:
    _services: LogServices
    _features: Features
    persister: SharePersister
    dead_letters: DeadLetters
    sessions: ShareSessions = attrs.field(init=False)
    partitions: LedSharePartitions = attrs.field(init=False)
    _settings: dict[str, _ParsedSettings] = attrs.field(factory=dict, init=False)
    _fetches: dict[ShareSession, dict[StoppableFetch, None]] = attrs.field(factory=dict, init=False)
    _connections: dict[Caller, None] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.sessions = ShareSessions(self._services.config.group_share_max_share_sessions)
        store, counts = self.dead_letters.store, self.dead_letters.counts
        self.partitions = LedSharePartitions(self._services, self.persister, self.settings_of, store, counts)

    @property
    def counts(self) -> ShareCounts:
        return self.dead_letters.counts

    def settings_of(self, group_id: str) -> DeliverySettings:
        image, level = self._services.metadata.image, self._features.level(SHARE_VERSION)
        parsed = self._settings.get(group_id)
        if parsed is not None and parsed.image is image and parsed.level == level:
            return parsed.settings
        stored, has_dead_letters = image.settings(group_resource(group_id)), level >= _FIRST_WITH_DEAD_LETTERS
        if len(self._settings) >= _SETTINGS_KEPT_MAX:
            self._settings.clear()
        if parsed is not None and parsed.stored == stored and parsed.level == level:
            settings = parsed.settings
        else:
            settings = DeliverySettings.of(self._services.config, stored, has_dead_letters)
        self._settings[group_id] = _ParsedSettings(image, level, stored, settings)
        return settings

    # -- sessions ----------------------------------------------------------------------------------------------------

    def open_session(self, group_id: str, member_id: str, connection: Caller) -> ShareSession:
        """Begin a session, and end a former one of the member; raise SHARE_SESSION_LIMIT_REACHED."""
        former = self.sessions.find(group_id, member_id)
        if former is not None:
            self.end_session(former)
        session = self.sessions.open(group_id, member_id, connection)
        if isinstance(session, ErrorCode):
            raise KafkaError(
                f"the broker has {len(self.sessions)} share sessions, by group.share.max.share.sessions", session
            )
        if connection not in self._connections:
            self._connections[connection] = None
            connection.call_on_leave(lambda: self._connection_lost(connection))
        return session

    def go_on(self, group_id: str, member_id: str, connection: Caller, epoch: int) -> ShareSession:
        """Return the session of a request after the first; raise KafkaError."""
        session = self.sessions.go_on(group_id, member_id, connection, epoch)
        if isinstance(session, ErrorCode):
            raise KafkaError("the share session does not go on with this epoch", session)
        return session

    def update_session(
        self, session: ShareSession, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]
    ) -> None:
        """Add and remove partitions; raise SHARE_SESSION_LIMIT_REACHED if all sessions together have too many."""
        new = dict.fromkeys(partition for partition in added if partition not in session.partitions)
        if new and self.partitions.entered + len(new) > PARTITIONS_MAX:
            raise KafkaError(
                f"all share sessions together have more than {PARTITIONS_MAX} partitions",
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
            )
        for partition in new:
            self.partitions.enter(session.group_id, partition)
        left = [
            partition for partition in dict.fromkeys(forgotten) if partition in session.partitions or partition in new
        ]
        session.update(new, left)
        for partition in left:
            self.partitions.leave(session.group_id, partition)

    def end_session(self, session: ShareSession) -> None:
        """Forget a session, answer its fetches, and release what its member has acquired."""
        self.sessions.close(session)
        for fetch in self._fetches.pop(session, ()):
            fetch.stop()
        run_in_background(
            log,
            self._release(session),
            "records of a member of share group {group!r} were not released; their locks expire",
            group=session.group_id,
        )

    async def _release(self, session: ShareSession) -> None:
        for partition in tuple(session.partitions):  # a fetch that ends meanwhile rotates them
            led = self.led(session.group_id, partition)
            if led is not None:
                await led.release(session.member_id)
            self.partitions.leave(session.group_id, partition)

    def _connection_lost(self, connection: Caller) -> None:
        self._connections.pop(connection, None)
        for session in self.sessions.close_connection(connection):
            self.end_session(session)

    # -- requests ----------------------------------------------------------------------------------------------------

    def led(self, group_id: str, partition: TopicIdPartition) -> LedSharePartition | None:
        """Return a loaded share partition; None if this broker does not lead it, or has not loaded it."""
        try:
            replica = self._services.partitions.find(*partition)
        except KafkaError:
            return None
        return self.partitions.led(SharePartitionKey(group_id, *partition), replica)

    async def acknowledge(
        self,
        session: ShareSession,
        acknowledgements: Mapping[TopicIdPartition, Iterable[Acknowledgement]],
        *,
        may_renew: bool,
    ) -> dict[TopicIdPartition, KafkaError | None]:
        """Acknowledge records in partitions; return the error of each, or None."""
        if len(acknowledgements) == 1:  # as a rule
            [(partition, batches)] = acknowledgements.items()
            return {partition: await self._acknowledge(session, partition, batches, may_renew=may_renew)}
        begun = {
            partition: ensureDeferred(self._acknowledge(session, partition, batches, may_renew=may_renew))
            for partition, batches in acknowledgements.items()
        }
        return {partition: await error for partition, error in begun.items()}

    async def _acknowledge(
        self, session: ShareSession, partition: TopicIdPartition, batches: Iterable[Acknowledgement], *, may_renew: bool
    ) -> KafkaError | None:
        try:
            replica = self._services.partitions.find(*partition)
        except KafkaError as error:
            return error
        led = self.partitions.led(SharePartitionKey(session.group_id, *partition), replica)
        if led is None:
            return KafkaError("no record of the partition is acquired", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        error_code = await led.acknowledge(session.member_id, batches, may_renew=may_renew)
        if error_code:
            return KafkaError(error_code.meaning, error_code)
        self.counts.count_acknowledged(batches)
        return None

    def fetch_begins(self, session: ShareSession, fetch: StoppableFetch) -> None:
        self._fetches.setdefault(session, {})[fetch] = None

    def fetch_ends(self, session: ShareSession, fetch: StoppableFetch) -> None:
        fetches = self._fetches.get(session)
        if fetches is not None:
            fetches.pop(fetch, None)
            if not fetches:
                del self._fetches[session]

    # -- changes around ----------------------------------------------------------------------------------------------

    def on_resigned(self, topic: str, index: int, epoch: int) -> None:
        self.partitions.resign(topic, index)

    def on_partition_offline(self, topic: str, index: int) -> None:
        self.partitions.resign(topic, index)

    def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        for change in delta:
            if isinstance(change, TopicDeleted):
                self.partitions.drop_topic(change.topic.id)

    def close(self) -> None:
        """Answer all fetches."""
        for fetches in tuple(self._fetches.values()):
            for fetch in tuple(fetches):
                fetch.stop()
        self.partitions.close()
