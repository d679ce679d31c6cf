"""Access of a connection: what it may do, with the verdicts remembered.

A verdict holds until the broker's ACLs change. So a request costs one lookup for each topic that it names: Produce and
Fetch, whose requests are many, find it in a set.

Denials are logged at the level info, for each address a few a minute. What is allowed is logged at the level debug when
it is first decided. The lines are those of Kafka's authorizer, without the request's name.
"""

from __future__ import annotations

from sys import getsizeof
from typing import Final, Protocol

import attrs
from twisted.logger import Logger

from pylogbroker.metadata.topic_names import NAME_LENGTH_MAX
from pylogbroker.peer_log_limit import PeerLogLimit
from pylogbroker.security.acls.authorizer import Authorizer, kafka_host
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType, kafka_name

log = Logger()
_REMEMBERED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Memory of the verdicts for one principal and host: some 10,000 names."""
_VERDICT_BYTES: Final = 260  # besides the name
_LINE: Final = (
    "Principal = {principal} is {verdict} operation = {operation} from host = {host} on resource = {resource}"
)

_Asked = tuple[AclOperation, AclResourceType, str]


class HasDecisions(Protocol):
    decisions: Authorizer
    """The decisions in force. What replaces them calls `Access.forget`."""


@attrs.define(eq=False, repr=False)
class Access:
    """Access of one principal from one host, for all of its connections.

    Names that are longer than a topic's are not remembered: anybody may send a lot of them.
    A denial is not logged if it is asked `quietly`: it decides what an answer lists, or another check follows.
    """

    principal: str
    _host: str
    _source: HasDecisions
    _denials: PeerLogLimit
    readable_topics: set[str] = attrs.field(factory=set, init=False)
    """Topics that may be read, as far as this is remembered."""
    writable_topics: set[str] = attrs.field(factory=set, init=False)
    """Topics that may be written, as far as this is remembered."""
    _known: dict[_Asked, bool] = attrs.field(factory=dict, init=False)
    _known_bytes: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._host = kafka_host(self._host)

    def allows(self, operation: AclOperation, kind: AclResourceType, name: str, quietly: bool = False) -> bool:
        query = operation, kind, name
        verdict = self._known.get(query)
        if verdict is None:
            verdict = self._source.decisions.allows(self.principal, self._host, operation, kind, name)
            self._remember(query, verdict)
            if verdict:
                log.debug(_LINE, verdict="Allowed", **self._shown(query))
        if not verdict and not quietly and self._denials.is_due(self._host):
            log.info(_LINE, verdict="Denied", **self._shown(query))
        return verdict

    def allows_on_topic(self, operation: AclOperation, topic: str) -> bool:
        return self.allows(operation, AclResourceType.TOPIC, topic)

    def allows_on_group(self, operation: AclOperation, group: str) -> bool:
        return self.allows(operation, AclResourceType.GROUP, group)

    def allows_on_cluster(self, operation: AclOperation, quietly: bool = False) -> bool:
        return self.allows(operation, AclResourceType.CLUSTER, CLUSTER_NAME, quietly)

    def allows_on_transactional_id(self, operation: AclOperation, transactional_id: str) -> bool:
        return self.allows(operation, AclResourceType.TRANSACTIONAL_ID, transactional_id)

    def allows_on_any_topic(self, operation: AclOperation) -> bool:
        return self._source.decisions.allows_on_any(self.principal, self._host, operation, AclResourceType.TOPIC)

    def operations(self, kind: AclResourceType, name: str) -> int:
        """Return the allowed operations as the bit field in responses."""
        return self._source.decisions.operations(self.principal, self._host, kind, name)

    def forget(self) -> None:
        """Forget all verdicts, since ACLs have changed."""
        self._known.clear()
        self.readable_topics.clear()
        self.writable_topics.clear()
        self._known_bytes = 0

    def _remember(self, query: _Asked, verdict: bool) -> None:
        operation, kind, name = query
        if len(name) > NAME_LENGTH_MAX:
            return
        size = _VERDICT_BYTES + getsizeof(name)
        if self._known_bytes + size > _REMEMBERED_BYTES_MAX:
            self.forget()
        self._known[query] = verdict
        self._known_bytes += size
        if verdict and kind is AclResourceType.TOPIC:
            if operation is AclOperation.READ:
                self.readable_topics.add(name)
            elif operation is AclOperation.WRITE:
                self.writable_topics.add(name)

    def _shown(self, query: _Asked) -> dict[str, str]:
        operation, kind, name = query
        resource = f"{kafka_name(kind)}:LITERAL:{printable(name)}"
        return {
            "principal": printable(self.principal),
            "operation": operation.name,
            "host": self._host,
            "resource": resource,
        }


def printable(text: str) -> str:
    """Return a client's text without what could pass for another line of the log."""
    return text if text.isprintable() else repr(text)[1:-1]
