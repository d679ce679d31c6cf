"""Committed metadata records to nodes of users, quotas, ACLs, tokens and features.

    record                                        node, in the layout of the coordination tree
    --------------------------------------------  ------------------------------------------------------------
    UserScramCredential and its removal           /config/users/<name>, with the user's quotas
    ClientQuota                                   /config/users/..., /config/clients/<id> or /config/ips/<address>
    AccessControlEntry and its removal            /kafka-acl/<Type>/<name> or the one of a prefix
    DelegationToken and its removal               /delegation_token/tokens/<id>
    FeatureLevel                                  /feature

The services that use them follow nodes, with ZooKeeper and without: so they need not know where records come from. A
changed node comes with the notification that they wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import UUID

import attrs
from twisted.logger import Logger

from pylogbroker.interfaces import Create
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.config_changes import notification
from pylogbroker.security.acls import tree_layout as acl_layout
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from pylogbroker.security.delegation import tree_layout as token_layout
from pylogbroker.security.delegation.tokens import DelegationToken
from pylogbroker.security.quotas.entities import DEFAULT, QuotaEntity
from pylogbroker.security.quotas.keys import QuotaKey
from pylogbroker.security.quotas.keys import encode as encode_quota
from pylogbroker.security.quotas.tree_layout import entity_path
from pylogbroker.security.sasl.stored_credentials import MECHANISM_NUMBERS
from pylogbroker.security.sasl.stored_credentials import encode as encode_credential
from pylogbroker.security.sasl.users import ScramKeys
from pylogbroker.wire.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

log = Logger()
_FEATURES_VERSION: Final = 2


@attrs.frozen
class ChangedNode:
    """New data of a node, None for none, and the notification of the change, if there is one."""

    path: str
    data: bytes | None
    notification: Create | None = None


@attrs.define(eq=False, repr=False)
class Entities:
    """Users, quotas, ACLs, tokens and features of the cluster, as of the last record."""

    levels: dict[str, int] = attrs.field(factory=dict, init=False)
    _settings: dict[str, dict[str, str]] = attrs.field(factory=dict, init=False)
    """SCRAM credentials and quotas, by the entity's path below /config."""
    _acls: dict[UUID, tuple[ResourcePattern, AccessControlEntry]] = attrs.field(factory=dict, init=False)
    _entries: dict[ResourcePattern, set[AccessControlEntry]] = attrs.field(factory=dict, init=False)
    _tokens: dict[str, DelegationToken] = attrs.field(factory=dict, init=False)
    _changed_settings: dict[str, None] = attrs.field(factory=dict, init=False)
    _changed_acls: set[ResourcePattern] = attrs.field(factory=set, init=False)
    _changed_tokens: set[str] = attrs.field(factory=set, init=False)
    _are_features_changed: bool = attrs.field(default=False, init=False)

    def apply(self, record: MetadataRecord) -> None:
        """Take the next committed record; others are ignored."""
        match record:
            case UserScramCredentialRecord():
                self._set_credential(record)
            case RemoveUserScramCredentialRecord():
                self._set(entity_path(QuotaEntity(record.name)), MECHANISM_NUMBERS[record.mechanism], None)
            case ClientQuotaRecord():
                self._set_quota(record)
            case AccessControlEntryRecord():
                self._add_acl(record)
            case RemoveAccessControlEntryRecord():
                self._remove_acl(record.id)
            case DelegationTokenRecord():
                self._tokens[record.token_id] = DelegationToken(
                    record.token_id,
                    record.owner,
                    record.requester,
                    tuple(record.renewers),
                    record.issue_timestamp,
                    record.max_timestamp,
                    record.expiration_timestamp,
                )
                self._changed_tokens.add(record.token_id)
            case RemoveDelegationTokenRecord():
                self._tokens.pop(record.token_id, None)
                self._changed_tokens.add(record.token_id)
            case FeatureLevelRecord():
                self._set_level(record.name, record.feature_level)

    def replace(self, former: Entities) -> None:
        """Let all nodes of a former state, too, count as changed: a snapshot replaces it."""
        self._changed_settings.update(dict.fromkeys(former._settings))
        self._changed_acls |= former._entries.keys()
        self._changed_tokens |= former._tokens.keys()
        self._are_features_changed = True

    def changed_nodes(self) -> Iterator[ChangedNode]:
        """Yield the nodes that changed since the last call."""
        for path in self._changed_settings:
            settings = self._settings.get(path)
            data = None if settings is None else zk_schema.encode_config(settings)
            yield ChangedNode(f"/config/{path}", data, notification(path))
        for resource in self._changed_acls:
            entries = self._entries.get(resource)
            announced = Create(
                acl_layout.new_change_path(resource.pattern), acl_layout.encode_change(resource), sequence=True
            )
            data = acl_layout.encode_entries(entries) if entries else None
            yield ChangedNode(acl_layout.path(resource), data, announced)
        for token_id in self._changed_tokens:
            token = self._tokens.get(token_id)
            announced = Create(token_layout.CHANGE_PREFIX, token_layout.encode_change(token_id), sequence=True)
            data = None if token is None else token_layout.encode_token(token)
            yield ChangedNode(token_layout.path(token_id), data, announced)
        if self._are_features_changed:
            node = zk_schema.FeaturesNode(True, _FEATURES_VERSION, self.levels)
            yield ChangedNode(zk_paths.FEATURES, zk_schema.encode_features(node))
        self._changed_settings, self._changed_acls, self._changed_tokens = {}, set(), set()
        self._are_features_changed = False

    # users and quotas

    def _set_credential(self, record: UserScramCredentialRecord) -> None:
        mechanism = MECHANISM_NUMBERS[record.mechanism]
        keys = ScramKeys(mechanism, record.iterations, record.salt, record.stored_key, record.server_key)
        self._set(entity_path(QuotaEntity(record.name)), mechanism, encode_credential(keys))

    def _set_quota(self, record: ClientQuotaRecord) -> None:
        names = {part.entity_type: DEFAULT if part.entity_name is None else part.entity_name for part in record.entity}
        entity = QuotaEntity(names.pop("user", None), names.pop("client-id", None), names.pop("ip", None))
        if names or record.key not in frozenset(QuotaKey):
            log.warn("the quota {key} of {names} is not known here, and not kept", key=record.key, names=list(names))
            return
        key = QuotaKey(record.key)
        self._set(entity_path(entity), key, None if record.remove else encode_quota(key, record.value))

    def _set(self, path: str, name: str, value: str | None) -> None:
        settings = self._settings.setdefault(path, {})
        if value is None:
            settings.pop(name, None)
        else:
            settings[name] = value
        if not settings:
            del self._settings[path]
        self._changed_settings[path] = None

    # ACLs

    def _add_acl(self, record: AccessControlEntryRecord) -> None:
        resource = ResourcePattern(
            AclResourceType(record.resource_type), record.resource_name, PatternType(record.pattern_type)
        )
        entry = AccessControlEntry(
            record.principal, record.host, AclOperation(record.operation), AclPermission(record.permission_type)
        )
        self._acls[record.id] = resource, entry
        self._entries.setdefault(resource, set()).add(entry)
        self._changed_acls.add(resource)

    def _remove_acl(self, acl_id: UUID) -> None:
        removed = self._acls.pop(acl_id, None)
        if removed is None:
            return
        resource, entry = removed
        entries = self._entries[resource]
        entries.discard(entry)
        if not entries:
            del self._entries[resource]
        self._changed_acls.add(resource)

    # features

    def _set_level(self, name: str, level: int) -> None:
        if level:
            self.levels[name] = level
        else:
            self.levels.pop(name, None)
        self._are_features_changed = True
