"""Paths of the records API."""

from __future__ import annotations

from typing import Final

from pylogbroker.web.records_api.confluent import (
    ConfluentError,
    ConfluentRecord,
    ConfluentWritten,
    produce_confluent,
)
from pylogbroker.web.records_api.confluent_topics import (
    PREFIXES,
    ConfluentCluster,
    ConfluentClusters,
    ConfluentTopic,
    ConfluentTopics,
    confluent_cluster,
    confluent_clusters,
    confluent_topic,
    confluent_topics,
)
from pylogbroker.web.records_api.errors import RecordError
from pylogbroker.web.records_api.followers import FollowedRecords
from pylogbroker.web.records_api.group_offsets import (
    Committed,
    CommittedOffsets,
    NewOffsets,
    commit_offsets,
    group_committed,
)
from pylogbroker.web.records_api.reading import CommittedRecord, ReadRecords, read_records
from pylogbroker.web.records_api.writing import (
    RecordsToWrite,
    RecordToWrite,
    WrittenLines,
    WrittenRecord,
    WrittenRecords,
    write_records,
)
from pylogbroker.web.router import HttpRoute
from pylogbroker.web.router.routes import EVENTS, NDJSON

_RECORDS: Final = "/api/topics/{topic}/records"
_OFFSETS: Final = "/api/groups/{id}/offsets"


def _confluent(prefix: str) -> tuple[HttpRoute, ...]:
    """Return the paths of Confluent's API; the operations of the second prefix have names of their own."""
    mark = "" if prefix == PREFIXES[0] else "_of_server"
    cluster = f"{prefix}/clusters/{{cluster_id}}"
    topic = f"{cluster}/topics/{{topic_name}}"
    return (
        HttpRoute(
            "GET",
            f"{prefix}/clusters",
            confluent_clusters,
            answer=ConfluentClusters,
            error=ConfluentError,
            operation=f"confluent_clusters{mark}",
        ),
        HttpRoute(
            "GET",
            cluster,
            confluent_cluster,
            answer=ConfluentCluster,
            error=ConfluentError,
            operation=f"confluent_cluster{mark}",
        ),
        HttpRoute(
            "GET",
            f"{cluster}/topics",
            confluent_topics,
            answer=ConfluentTopics,
            error=ConfluentError,
            operation=f"confluent_topics{mark}",
        ),
        HttpRoute(
            "GET",
            topic,
            confluent_topic,
            answer=ConfluentTopic,
            error=ConfluentError,
            operation=f"confluent_topic{mark}",
        ),
        HttpRoute(
            "POST",
            f"{topic}/records",
            produce_confluent,
            body=ConfluentRecord,
            answer=ConfluentWritten | ConfluentError,
            error=ConfluentError,
            operation=f"produce_confluent{mark}",
        ),
    )


ROUTES: Final = (
    HttpRoute(
        "GET",
        _RECORDS,
        read_records,
        answer=ReadRecords,
        other_answers={NDJSON: CommittedRecord, EVENTS: FollowedRecords},
    ),
    HttpRoute(
        "POST",
        _RECORDS,
        write_records,
        body=RecordToWrite | RecordsToWrite,
        lines=RecordToWrite,
        answer=WrittenRecord | WrittenRecords | WrittenLines,
        other_statuses={207: "Some records are written"},
        error=RecordError | WrittenRecords | WrittenLines,
    ),
    HttpRoute("GET", _OFFSETS, group_committed, answer=CommittedOffsets),
    HttpRoute("POST", _OFFSETS, commit_offsets, body=NewOffsets, answer=Committed),
    *(route for prefix in PREFIXES for route in _confluent(prefix)),
)
