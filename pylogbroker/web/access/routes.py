"""Routes of the pages of access and of their forms, and their old addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pylogbroker.web.access.acl_forms import add_acl_of_form, allow_task, new_acls, remove_acls
from pylogbroker.web.access.acls import acl_entry, acl_matrix
from pylogbroker.web.access.quotas import entity_quotas, quota_table, set_quotas
from pylogbroker.web.access.users import (
    delete_user_confirmed,
    new_password,
    set_password_of_form,
    user_table,
    user_to_delete,
)
from pylogbroker.web.acl_views import delete_acl
from pylogbroker.web.links import link
from pylogbroker.web.page_routes import form, moved, page

_USERS: Final = "/access/users"
_PASSWORD: Final = page("/access/users/password", new_password, "access-password")
_DELETE_USER: Final = page("/access/users/{name}/delete", user_to_delete, "access-user-delete")
_ACLS: Final = "/access/acls"
_ALLOW: Final = page("/access/acls/allow", new_acls, "access-allow")
_ENTRY: Final = page("/access/acls/entry", acl_entry, "access-acl")
_QUOTAS: Final = "/access/quotas"
_QUOTA: Final = page("/access/quotas/set", entity_quotas, "access-quota")


def _of_principal(done: Mapping[str, str]) -> str:
    return link(_ACLS, principal=done["principal"])


ACCESS_PAGES: Final = (
    page("/access/users", user_table, "access-users"),
    _PASSWORD,
    _DELETE_USER,
    form("/access/users/password", set_password_of_form, _PASSWORD, lambda done: link(_USERS, search=done["name"])),
    form("/access/users/{name}/delete", delete_user_confirmed, _DELETE_USER, lambda done: _USERS),
    page(_ACLS, acl_matrix, "access-acls"),
    _ALLOW,
    _ENTRY,
    form("/access/acls/allow", allow_task, _ALLOW, _of_principal),
    form("/access/acls/add", add_acl_of_form, _ALLOW, _of_principal),
    form("/access/acls/remove", delete_acl, _ENTRY, _of_principal),
    form("/access/acls/remove-all", remove_acls, _ENTRY, _of_principal),
    page(_QUOTAS, quota_table, "access-quotas"),
    _QUOTA,
    form("/access/quotas/set", set_quotas, _QUOTA, lambda done: _QUOTAS),
    moved("/access", lambda given: _USERS),
    moved("/acls", lambda given: link(_ACLS, **{name: given.get(name) for name in ("principal", "resource", "name")})),
    moved("/quotas", lambda given: link(_QUOTAS, search=given.get("search"))),
    moved("/users", lambda given: link(_USERS, search=given.get("search"))),
)
