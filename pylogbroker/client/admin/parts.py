"""Parts of an admin client, whether it has a reactor or blocks. A part is imported on first use."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pylogbroker.client.admin.routing import Router
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.client.admin import (
        acls,
        cluster_info,
        configs,
        groups,
        quotas,
        records,
        replicas,
        share_groups,
        tokens,
        topics,
        transactions,
        users,
    )
    from pylogbroker.client.admin.acls import AclAdmin
    from pylogbroker.client.admin.cluster_info import ClusterInfoAdmin
    from pylogbroker.client.admin.configs import ConfigAdmin
    from pylogbroker.client.admin.groups import GroupAdmin
    from pylogbroker.client.admin.quotas import QuotaAdmin
    from pylogbroker.client.admin.records import RecordAdmin
    from pylogbroker.client.admin.replicas import ReplicaAdmin
    from pylogbroker.client.admin.share_groups import ShareGroupAdmin
    from pylogbroker.client.admin.tokens import TokenAdmin
    from pylogbroker.client.admin.topics import TopicAdmin
    from pylogbroker.client.admin.transactions import TransactionAdmin
    from pylogbroker.client.admin.users import UserAdmin
else:
    acls = on_first_use("pylogbroker.client.admin.acls")
    cluster_info = on_first_use("pylogbroker.client.admin.cluster_info")
    configs = on_first_use("pylogbroker.client.admin.configs")
    groups = on_first_use("pylogbroker.client.admin.groups")
    quotas = on_first_use("pylogbroker.client.admin.quotas")
    records = on_first_use("pylogbroker.client.admin.records")
    replicas = on_first_use("pylogbroker.client.admin.replicas")
    share_groups = on_first_use("pylogbroker.client.admin.share_groups")
    tokens = on_first_use("pylogbroker.client.admin.tokens")
    topics = on_first_use("pylogbroker.client.admin.topics")
    transactions = on_first_use("pylogbroker.client.admin.transactions")
    users = on_first_use("pylogbroker.client.admin.users")


class AdminParts:
    def __init__(self, router: Router) -> None:
        self._router = router

    @cached_property
    def topics(self) -> TopicAdmin:
        return topics.TopicAdmin(self._router)

    @cached_property
    def configs(self) -> ConfigAdmin:
        return configs.ConfigAdmin(self._router)

    @cached_property
    def groups(self) -> GroupAdmin:
        return groups.GroupAdmin(self._router)

    @cached_property
    def records(self) -> RecordAdmin:
        return records.RecordAdmin(self._router)

    @cached_property
    def cluster(self) -> ClusterInfoAdmin:
        return cluster_info.ClusterInfoAdmin(self._router)

    @cached_property
    def transactions(self) -> TransactionAdmin:
        return transactions.TransactionAdmin(self._router)

    @cached_property
    def replicas(self) -> ReplicaAdmin:
        return replicas.ReplicaAdmin(self._router)

    @cached_property
    def acls(self) -> AclAdmin:
        return acls.AclAdmin(self._router)

    @cached_property
    def users(self) -> UserAdmin:
        return users.UserAdmin(self._router)

    @cached_property
    def quotas(self) -> QuotaAdmin:
        return quotas.QuotaAdmin(self._router)

    @cached_property
    def tokens(self) -> TokenAdmin:
        return tokens.TokenAdmin(self._router)

    @cached_property
    def share_groups(self) -> ShareGroupAdmin:
        return share_groups.ShareGroupAdmin(self._router)
