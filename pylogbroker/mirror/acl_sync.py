"""ACLs of mirrored topics, added in the target as MirrorMaker 2 does.

| ACL of the source                          | in the target                  |
|--------------------------------------------|--------------------------------|
| of a topic by its whole name               | of the topic's name there      |
| that allows all operations                 | allows reading                 |
| that allows writing                        | none: the mirror alone writes  |
| of all topics, of a prefix, of a group ... | none                           |

ACLs are only added. One that is deleted in the source stays in the target: it may have been given there on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
from twisted.logger import Logger

from pylogbroker.client import AdminClient
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)

log = Logger()


def bindings_for(bindings: Iterable[AclBinding], topics: Mapping[str, str]) -> list[AclBinding]:
    """Return the target's ACLs for those of a source, by the target's name of each source topic."""
    mirrored = []
    for binding in bindings:
        resource, entry = binding.resource, binding.entry
        is_topic = resource.type is AclResourceType.TOPIC and resource.pattern is PatternType.LITERAL
        if not is_topic or resource.name not in topics:
            continue
        if entry.permission is AclPermission.ALLOW:
            if entry.operation is AclOperation.WRITE:
                continue
            if entry.operation is AclOperation.ALL:
                entry = attrs.evolve(entry, operation=AclOperation.READ)
        mirrored.append(AclBinding(ResourcePattern(AclResourceType.TOPIC, topics[resource.name]), entry))
    return list(dict.fromkeys(mirrored))


@attrs.define(eq=False, repr=False)
class AclSync:
    """Adds ACLs. Without an authorizer in either cluster there is nothing to do."""

    _source: AdminClient
    _target: AdminClient
    _is_disabled: bool = False

    async def run(self, topics: Mapping[str, str]) -> int:
        """Return how many ACLs were added."""
        if self._is_disabled:
            return 0
        literal_topics = AclFilter(type=AclResourceType.TOPIC, pattern=PatternType.LITERAL)
        try:
            of_source = await self._source.acls.describe(literal_topics)
            present = frozenset(await self._target.acls.describe(literal_topics))
        except KafkaError as error:
            if error.code is not ErrorCode.SECURITY_DISABLED:
                raise
            self._is_disabled = True
            log.info("ACLs of topics are not mirrored: a cluster has no authorizer ({error})", error=str(error))
            return 0
        missing = [binding for binding in bindings_for(of_source, topics) if binding not in present]
        if missing:
            await self._target.acls.create(missing)
        return len(missing)
