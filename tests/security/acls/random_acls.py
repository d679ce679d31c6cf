"""ACLs and requests at random, of few names, prefixes, principals and hosts, so that they often meet."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import attrs

from pylogbroker.security.acls.authorizer import Authorizer
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from pylogbroker.security.acls.index import AclIndex

NAMES = ("*", "a", "ab", "abc", "abd", "b", "ba", "hardcode", "hard", "h", "**", "*a", "!", "ü", "üb", "z.9", "z.99")
ASKED = [name for name in NAMES if not name.startswith("*")]
"""StandardAuthorizer forgets the ACLs of `*` for longer names that begin with it. AclAuthorizer does not."""

PRINCIPALS = ("User:*", "User:alice", "User:bob", "User:root", "Group:alice", "User:CN=x,O=y")
HOSTS = ("*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
TYPES = tuple(kind for kind in AclResourceType if kind is not AclResourceType.ANY)
OPERATIONS = tuple(each for each in AclOperation if each is not AclOperation.ANY)


@attrs.frozen
class Check:
    """A request of a caller; without a name, one for any resource of the type."""

    principal: str
    host: str
    operation: AclOperation
    type: AclResourceType
    name: str | None

    def answer(self, authorizer: Authorizer) -> bool:
        caller = self.principal, self.host, self.operation, self.type
        return authorizer.allows_on_any(*caller) if self.name is None else authorizer.allows(*caller, self.name)


@attrs.frozen
class Case:
    """An authorizer's ACLs and settings, and requests."""

    bindings: Sequence[AclBinding]
    super_users: frozenset[str]
    allow_everyone: bool
    checks: Sequence[Check]

    def answers(self) -> str:
        authorizer = Authorizer(AclIndex.of(self.bindings), self.super_users, self.allow_everyone)
        return "".join("+" if check.answer(authorizer) else "-" for check in self.checks)

    def question(self) -> str:
        """Lines for `Authorizations.java`."""
        lines = [f"new\t{';'.join(sorted(self.super_users))}\t{str(self.allow_everyone).lower()}"]
        for each in self.bindings:
            on, entry = each.resource, each.entry
            who = f"{entry.principal}\t{entry.host}\t{entry.operation:d}\t{entry.permission:d}"
            lines.append(f"acl\t{on.type:d}\t{on.name}\t{on.pattern:d}\t{who}")
        for check in self.checks:
            asked = f"{check.principal}\t{check.host}\t{check.operation:d}\t{check.type:d}"
            lines.append(f"any\t{asked}" if check.name is None else f"check\t{asked}\t{check.name}")
        return "\n".join(lines) + "\n"


def random_case(random: Random, acls_max: int, checks: int) -> Case:
    types = random.sample(TYPES, 2)  # few, so that ACLs and requests meet
    bindings = {_binding(random, types) for _ in range(random.randrange(acls_max))}
    return Case(
        sorted(bindings, key=repr),
        frozenset({"User:root"} if random.random() < 0.5 else ()),
        random.random() < 0.5,
        [_check(random, types) for _ in range(checks)],
    )


def _binding(random: Random, types: Sequence[AclResourceType]) -> AclBinding:
    pattern = random.choice((PatternType.LITERAL, PatternType.PREFIXED))
    permission = AclPermission.DENY if random.random() < 0.3 else AclPermission.ALLOW
    entry = AccessControlEntry(random.choice(PRINCIPALS), random.choice(HOSTS), random.choice(OPERATIONS), permission)
    return AclBinding(ResourcePattern(random.choice(types), random.choice(NAMES), pattern), entry)


def _check(random: Random, types: Sequence[AclResourceType]) -> Check:
    by_type = random.random() < 0.15
    return Check(
        random.choice(PRINCIPALS[1:]),
        random.choice(HOSTS[1:]),
        random.choice([each for each in OPERATIONS if each is not AclOperation.ALL]),
        random.choice(types),
        None if by_type else random.choice(ASKED) + random.choice(("", "", "c", "*")),
    )
