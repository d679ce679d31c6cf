"""Immutable index of ACLs by resource: thousands of them cost a check a few lookups.

literal name   one lookup
prefixes       one lookup for each length that a prefix of this resource type has
all resources  one lookup, of the literal name `*`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from pylogbroker.security.acls.bindings import (
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    AclFilter,
    AclResourceType,
    PatternType,
    ResourcePattern,
)

Entries = frozenset[AccessControlEntry]
_EVERY_USER: Final = "User:*"


@attrs.frozen
class ResourceAcls:
    """Entries of one pattern."""

    entries: Entries
    _by_principal: Mapping[str, Sequence[AccessControlEntry]]

    @classmethod
    def of(cls, entries: Entries) -> ResourceAcls:
        by_principal: dict[str, list[AccessControlEntry]] = {}
        for entry in entries:
            by_principal.setdefault(entry.principal, []).append(entry)
        return cls(entries, by_principal)

    def concerning(self, principal: str) -> Iterator[AccessControlEntry]:
        """Yield the entries of a principal, then those of every user."""
        yield from self._by_principal.get(principal, ())
        yield from self._by_principal.get(_EVERY_USER, ())


_NO_ACLS = ResourceAcls.of(frozenset())


@attrs.frozen
class _Patterns:
    """ACLs of one resource type by name and by prefix; `lengths` are those of the prefixes."""

    literal: Mapping[str, ResourceAcls] = attrs.field(factory=dict)
    prefixed: Mapping[str, ResourceAcls] = attrs.field(factory=dict)
    lengths: tuple[int, ...] = ()

    def of(self, pattern: PatternType) -> Mapping[str, ResourceAcls]:
        return self.prefixed if pattern is PatternType.PREFIXED else self.literal

    def covering(self, name: str) -> Iterator[ResourceAcls]:
        if (acls := self.literal.get(name)) is not None:
            yield acls
        if name != WILDCARD and (acls := self.literal.get(WILDCARD)) is not None:
            yield acls
        for length in self.lengths:
            if length > len(name):
                break
            if (acls := self.prefixed.get(name[:length])) is not None:
                yield acls


_NONE = _Patterns()


@attrs.frozen
class AclIndex:
    _types: Mapping[AclResourceType, _Patterns] = attrs.field(factory=dict)

    @classmethod
    def of(cls, bindings: Iterable[AclBinding]) -> AclIndex:
        entries: dict[ResourcePattern, set[AccessControlEntry]] = {}
        for binding in bindings:
            entries.setdefault(binding.resource, set()).add(binding.entry)
        return cls().with_entries({resource: frozenset(acl_entries) for resource, acl_entries in entries.items()})

    def covering(self, kind: AclResourceType, name: str) -> Iterator[ResourceAcls]:
        """Yield the ACLs of each pattern that covers a resource; none is empty."""
        return self._types.get(kind, _NONE).covering(name)

    def entries(self, resource: ResourcePattern) -> Entries:
        return self._types.get(resource.type, _NONE).of(resource.pattern).get(resource.name, _NO_ACLS).entries

    def of_type(self, kind: AclResourceType) -> Iterator[tuple[ResourcePattern, ResourceAcls]]:
        patterns = self._types.get(kind, _NONE)
        for pattern in (PatternType.LITERAL, PatternType.PREFIXED):
            for name, acls in patterns.of(pattern).items():
                yield ResourcePattern(kind, name, pattern), acls

    def resources(self) -> Iterator[tuple[ResourcePattern, ResourceAcls]]:
        for kind in self._types:
            yield from self.of_type(kind)

    def select(self, acl_filter: AclFilter) -> Iterator[AclBinding]:
        for resource, entries in self._selected_resources(acl_filter):
            for entry in entries:
                if acl_filter.matches_entry(entry):
                    yield AclBinding(resource, entry)

    def _selected_resources(self, acl_filter: AclFilter) -> Iterator[tuple[ResourcePattern, Entries]]:
        exact = acl_filter.exact_resource
        if exact is not None:
            yield exact, self.entries(exact)
            return
        for resource, acls in self.resources():
            if acl_filter.matches_resource(resource):
                yield resource, acls.entries

    def with_entries(self, changed: Mapping[ResourcePattern, Entries]) -> AclIndex:
        """Return an index in which resources have other entries; without any, they are forgotten."""
        types = dict(self._types)
        for kind in {resource.type for resource in changed}:
            before = types.get(kind, _NONE)
            literal, prefixed = dict(before.literal), dict(before.prefixed)
            for resource, entries in changed.items():
                if resource.type is kind:
                    names = prefixed if resource.pattern is PatternType.PREFIXED else literal
                    if entries:
                        names[resource.name] = ResourceAcls.of(entries)
                    else:
                        names.pop(resource.name, None)
            types[kind] = _Patterns(literal, prefixed, tuple(sorted({len(prefix) for prefix in prefixed})))
        return AclIndex(types)
