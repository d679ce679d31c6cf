"""Names of groups and transactions, which each broker has its own of."""

from __future__ import annotations

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.cli.name_queries import connections
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.list_transactions import ListTransactionsRequest


def groups(cluster: BlockingCluster) -> list[str]:
    return [
        group.group_id for connection in connections(cluster) for group in connection.ask(ListGroupsRequest()).groups
    ]


def transactional_ids(cluster: BlockingCluster) -> list[str]:
    return [
        transaction.transactional_id
        for connection in connections(cluster)
        for transaction in connection.ask(ListTransactionsRequest()).transaction_states
    ]
