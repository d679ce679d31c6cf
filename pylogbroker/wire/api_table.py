"""Keys and versions of all APIs, by the module of `pylogbroker.wire.messages` that has their messages.

First versions are those of Kafka 3.9, and last versions those of Kafka 4.4.

The table is known without an import of the messages: a class takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pylogbroker.wire.schema import Versions

APIS: Final[Mapping[str, tuple[int, Versions]]] = {
    "produce": (0, Versions(0, 13, flexible=9)),
    "fetch": (1, Versions(0, 18, flexible=12)),
    "list_offsets": (2, Versions(0, 11, flexible=6)),
    "metadata": (3, Versions(0, 13, flexible=9)),
    "leader_and_isr": (4, Versions(0, 7, flexible=4)),
    "stop_replica": (5, Versions(0, 4, flexible=2)),
    "update_metadata": (6, Versions(0, 8, flexible=6)),
    "controlled_shutdown": (7, Versions(0, 3, flexible=3)),
    "offset_commit": (8, Versions(0, 10, flexible=8)),
    "offset_fetch": (9, Versions(0, 10, flexible=6)),
    "find_coordinator": (10, Versions(0, 6, flexible=3)),
    "join_group": (11, Versions(0, 9, flexible=6)),
    "heartbeat": (12, Versions(0, 4, flexible=4)),
    "leave_group": (13, Versions(0, 5, flexible=4)),
    "sync_group": (14, Versions(0, 5, flexible=4)),
    "describe_groups": (15, Versions(0, 6, flexible=5)),
    "list_groups": (16, Versions(0, 5, flexible=3)),
    "sasl_handshake": (17, Versions(0, 1)),
    "api_versions": (18, Versions(0, 5, flexible=3)),
    "create_topics": (19, Versions(0, 7, flexible=5)),
    "delete_topics": (20, Versions(0, 6, flexible=4)),
    "delete_records": (21, Versions(0, 2, flexible=2)),
    "init_producer_id": (22, Versions(0, 5, flexible=2)),
    "offset_for_leader_epoch": (23, Versions(0, 4, flexible=4)),
    "add_partitions_to_txn": (24, Versions(0, 5, flexible=3)),
    "add_offsets_to_txn": (25, Versions(0, 4, flexible=3)),
    "end_txn": (26, Versions(0, 5, flexible=3)),
    "write_txn_markers": (27, Versions(0, 2, flexible=1)),
    "txn_offset_commit": (28, Versions(0, 6, flexible=3)),
    "describe_acls": (29, Versions(0, 3, flexible=2)),
    "create_acls": (30, Versions(0, 3, flexible=2)),
    "delete_acls": (31, Versions(0, 3, flexible=2)),
    "describe_configs": (32, Versions(0, 4, flexible=4)),
    "alter_configs": (33, Versions(0, 2, flexible=2)),
    "alter_replica_log_dirs": (34, Versions(0, 2, flexible=2)),
    "describe_log_dirs": (35, Versions(0, 5, flexible=2)),
    "sasl_authenticate": (36, Versions(0, 2, flexible=2)),
    "create_partitions": (37, Versions(0, 3, flexible=2)),
    "create_delegation_token": (38, Versions(0, 3, flexible=2)),
    "renew_delegation_token": (39, Versions(0, 2, flexible=2)),
    "expire_delegation_token": (40, Versions(0, 2, flexible=2)),
    "describe_delegation_token": (41, Versions(0, 3, flexible=2)),
    "delete_groups": (42, Versions(0, 3, flexible=2)),
    "elect_leaders": (43, Versions(0, 2, flexible=2)),
    "incremental_alter_configs": (44, Versions(0, 1, flexible=1)),
    "alter_partition_reassignments": (45, Versions(0, 1, flexible=0)),
    "list_partition_reassignments": (46, Versions(0, 0, flexible=0)),
    "offset_delete": (47, Versions(0, 0)),
    "describe_client_quotas": (48, Versions(0, 1, flexible=1)),
    "alter_client_quotas": (49, Versions(0, 1, flexible=1)),
    "describe_user_scram_credentials": (50, Versions(0, 0, flexible=0)),
    "alter_user_scram_credentials": (51, Versions(0, 0, flexible=0)),
    "alter_partition": (56, Versions(0, 3, flexible=0)),
    "update_features": (57, Versions(0, 2, flexible=0)),
    "describe_cluster": (60, Versions(0, 2, flexible=0)),
    "describe_producers": (61, Versions(0, 0, flexible=0)),
    "describe_transactions": (65, Versions(0, 0, flexible=0)),
    "list_transactions": (66, Versions(0, 2, flexible=0)),
    "allocate_producer_ids": (67, Versions(0, 0, flexible=0)),
    "consumer_group_heartbeat": (68, Versions(0, 1, flexible=0)),
    "consumer_group_describe": (69, Versions(0, 1, flexible=0)),
    "list_config_resources": (74, Versions(0, 1, flexible=0)),
    "describe_topic_partitions": (75, Versions(0, 0, flexible=0)),
}

LAST_IN_3_9: Final[Mapping[str, int]] = {
    "produce": 11,
    "fetch": 17,
    "list_offsets": 9,
    "metadata": 12,
    "offset_commit": 9,
    "offset_fetch": 9,
    "describe_groups": 5,
    "api_versions": 4,
    "end_txn": 4,
    "write_txn_markers": 1,
    "txn_offset_commit": 4,
    "describe_log_dirs": 4,
    "delete_groups": 2,
    "alter_partition_reassignments": 0,
    "update_features": 1,
    "describe_cluster": 1,
    "list_transactions": 1,
    "consumer_group_describe": 0,
    "list_config_resources": -1,
}
"""Last versions in Kafka 3.9 of the APIs that have newer ones; -1 for none in ZooKeeper mode."""
