"""Markers of transactions in partitions that other brokers lead (WriteTxnMarkers).

The markers for one broker are sent together. The coordinator repeats those that fail, to the leader of that time.

    answer                                          error for the coordinator
    ----------------------------------------------  -------------------------------------------------
    UNKNOWN_TOPIC_OR_PARTITION: it did not hear     NOT_LEADER_OR_FOLLOWER, after which it tries again
      of the partition yet, or not yet that it is
      deleted
    none: not connected, the outcome is unknown     NETWORK_EXCEPTION, after which it tries again

Source: Kafka's class TransactionMarkerChannelManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.coordinators.broker_batches import BrokerBatches, batches_without_repetition
from pylogbroker.broker.replication.leader_requests import RequestChannel
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.rpc.errors import code_of
from pylogbroker.transactions import TransactionMarker
from pylogbroker.wire import UnsupportedVersion
from pylogbroker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

log = Logger()
MARKER_CLIENT_ID: Final = "broker-{}-txn-marker-sender"
_WITH_TRANSACTION_VERSION: Final = 2
MarkerErrors = Mapping[TopicPartition, ErrorCode]


@attrs.frozen(eq=False, repr=False)
class _SentMarker:
    marker: TransactionMarker
    answer: Deferred[MarkerErrors] = attrs.field(factory=Deferred, init=False)


@attrs.define(eq=False, repr=False)
class MarkerSender:
    _open_channel: Callable[[int], RequestChannel]
    _runtime: Runtime
    requests: int = attrs.field(default=0, init=False)
    _batches: BrokerBatches[_SentMarker] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._batches = BrokerBatches(self._open_channel, self._write, self._runtime)

    def send(self, broker_id: int, marker: TransactionMarker) -> Deferred[MarkerErrors]:
        """Send a marker to the leader of its partitions; fire with an error for each of them."""
        sent = _SentMarker(marker)
        self._batches.add(broker_id, sent)
        return sent.answer.addErrback(self._failed, broker_id, marker)

    def disconnect(self, broker_id: int) -> None:
        self._batches.disconnect(broker_id)

    def close(self) -> None:
        self._batches.close()

    async def _write(self, channel: RequestChannel, sent: Sequence[_SentMarker]) -> None:
        for batch in batches_without_repetition(sent, lambda sent_marker: sent_marker.marker.producer_id):
            self.requests += 1
            response = await self._request(channel, [sent_marker.marker for sent_marker in batch])
            answers = {
                marker.producer_id: {
                    (topic.name, partition.partition_index): _error(partition.error_code)
                    for topic in marker.topics
                    for partition in topic.partitions
                }
                for marker in response.markers
            }
            for written in batch:
                errors = answers.get(written.marker.producer_id, {})
                written.answer.callback(
                    {key: errors.get(key, ErrorCode.UNKNOWN_SERVER_ERROR) for key in written.marker.partitions}
                )

    async def _request(self, channel: RequestChannel, markers: Sequence[TransactionMarker]) -> Any:
        """Send markers, with the versions of their transactions to a broker that knows these."""
        request = WriteTxnMarkersRequest([_encode(marker) for marker in markers])
        if any(marker.transaction_version for marker in markers):
            try:
                return await channel.request(request, _WITH_TRANSACTION_VERSION)
            except UnsupportedVersion:  # it is older, and has no strict check
                pass
        return await channel.request(request)

    def _failed(self, failure: Failure, broker_id: int, marker: TransactionMarker) -> MarkerErrors:
        if self._runtime.may_log(f"markers to broker {broker_id}"):
            log.warn(
                "markers of transactions cannot be sent to broker {broker}; they are sent again: {why}",
                broker=broker_id,
                why=failure.getErrorMessage(),
            )
        return dict.fromkeys(marker.partitions, ErrorCode.NETWORK_EXCEPTION)


def _encode(marker: TransactionMarker) -> WritableTxnMarker:
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for topic, index in marker.partitions:
        topics.setdefault(topic, WritableTxnMarkerTopic(topic)).partition_indexes.append(index)
    return WritableTxnMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.committed,
        list(topics.values()),
        marker.coordinator_epoch,
        marker.transaction_version,
    )


def _error(number: int) -> ErrorCode:
    error = code_of(number)
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error
