"""Rights of callers: a subject is protected as the topic whose records its schemas describe.

| request | right |
|---|---|
| read schemas, levels and modes of a subject | DESCRIBE on its topic, which READ and WRITE include |
| register | WRITE on its topic |
| delete | DELETE on its topic |
| change its level or mode | ALTER_CONFIGS on its topic |
| change those of contexts and of all subjects, delete a context | ALTER_CONFIGS on the cluster |

The topic of `orders-value` and `orders-key` is `orders`. That of another subject, as of a record's name, has the name
of the subject. Contexts do not count. A schema that is asked for by its id needs a right on one of its subjects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from pylogbroker.registry.errors import RegistryError
from pylogbroker.schemas.names import topic_of
from pylogbroker.schemas.subjects import QualifiedSubject
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType

Allows = Callable[[AclOperation, AclResourceType, str, bool], bool]
"""`allows(operation, kind, name, quietly)` returns whether a caller may do something."""

_DENIED: Final = 40301
_CONFIGURE_CLUSTER: Final = (AclOperation.ALTER_CONFIGS, AclResourceType.CLUSTER, CLUSTER_NAME)


@attrs.frozen(eq=False, repr=False)
class RegistryCaller:
    """Sender of a request; without `allows`, there are no rules of access."""

    principal: str = "User:ANONYMOUS"
    allows: Allows | None = None

    def sees(self, subject: str) -> bool:
        """Return whether the caller may read a subject; a denial is not logged."""
        return self._allows(AclOperation.DESCRIBE, subject, quietly=True)

    def visible(self, subjects: Iterable[str]) -> list[str]:
        return list(subjects) if self.allows is None else [subject for subject in subjects if self.sees(subject)]

    def check_read(self, subject: str) -> None:
        self._check(AclOperation.DESCRIBE, subject)

    def check_any_read(self, subjects: Iterable[str], what: object) -> None:
        """Raise RegistryError unless the caller may read one of some subjects."""
        if self.allows is not None and not any(map(self.sees, subjects)):
            raise RegistryError(_DENIED, f"{self.principal} has no right to read schema {what}")

    def check_register(self, subject: str) -> None:
        self._check(AclOperation.WRITE, subject)

    def check_delete(self, subject: str) -> None:
        self._check(AclOperation.DELETE, subject)

    def check_configure(self, subject: str | None) -> None:
        """Check the right to change settings; of None, a context, or all contexts, that is one on the cluster."""
        if subject is not None and not QualifiedSubject.parse(subject).is_context:
            self._check(AclOperation.ALTER_CONFIGS, subject)
        elif self.allows is not None and not self.allows(*_CONFIGURE_CLUSTER, False):
            raise RegistryError(_DENIED, f"{self.principal} has no right to ALTER_CONFIGS on the cluster")

    def _check(self, operation: AclOperation, subject: str) -> None:
        if not self._allows(operation, subject, quietly=False):
            raise RegistryError(
                _DENIED,
                f"{self.principal} has no right to {operation.name} on topic {topic_of(subject)}, which protects"
                f" subject {subject}",
            )

    def _allows(self, operation: AclOperation, subject: str, *, quietly: bool) -> bool:
        return self.allows is None or self.allows(operation, AclResourceType.TOPIC, topic_of(subject), quietly)


OPEN: Final = RegistryCaller()
"""RegistryCaller of a registry without rules."""
