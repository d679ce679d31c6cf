"""The authorizer of this broker: the ACLs in force, and who always may do all."""

from __future__ import annotations

from weakref import WeakValueDictionary

import attrs
from twisted.logger import Logger

from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.acl_store import AclStore
from pylogbroker.config import BrokerConfig
from pylogbroker.config.access_settings import parse_super_users
from pylogbroker.interfaces import ITree
from pylogbroker.peer_log_limit import PeerLogLimit
from pylogbroker.security.acls.authorizer import Authorizer
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.security.acls.index import AclIndex

log = Logger()


@attrs.define(eq=False, repr=False)
class BrokerAuthorizer:
    decisions: Authorizer
    _denials: PeerLogLimit
    acls: AclStore = attrs.field(init=False)
    _accesses: WeakValueDictionary[tuple[str, str], Access] = attrs.field(factory=WeakValueDictionary, init=False)

    @classmethod
    def of(cls, config: BrokerConfig, runtime: Runtime, tree: ITree) -> BrokerAuthorizer:
        users = parse_super_users(config.super_users)
        decisions = Authorizer(AclIndex(), users, config.allow_everyone_if_no_acl_found)
        denials = PeerLogLimit(runtime.clock, "{count} more requests from {host} were denied within a minute")
        authorizer = cls(decisions, denials)
        authorizer.acls = AclStore(tree, runtime, authorizer._set_acls)
        return authorizer

    def access(self, principal: str, host: str) -> Access:
        """Return what a connection may do; connections of one principal and host share what is remembered."""
        access = self._accesses.get((principal, host))
        if access is None:
            access = self._accesses[principal, host] = Access(principal, host, self, self._denials)
        return access

    async def open(self) -> None:
        await self.acls.open()

    def close(self) -> None:
        self.acls.close()
        self._denials.log_suppressed()

    def warn_of_brokers(self, principal: str, host: str) -> None:
        """Log a warning if the cluster's brokers, which connect as `principal`, may not act as brokers."""
        query = AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME
        if not self.decisions.allows(principal, host, *query):
            log.warn(
                "brokers of this cluster connect as {principal}, which may not act as a broker: partitions cannot be "
                "replicated; add {principal} to super.users, or allow it ClusterAction on the cluster",
                principal=principal,
            )

    def _set_acls(self, acls: AclIndex) -> None:
        self.decisions = attrs.evolve(self.decisions, acls=acls)
        for access in list(self._accesses.values()):
            access.forget()
