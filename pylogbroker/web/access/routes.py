"""Routes of the pages of access and of their forms, and their old addresses."""

from __future__ import annotations

from typing import Final

from pylogbroker.web.access.users import (
    delete_user_confirmed,
    new_password,
    set_password_of_form,
    user_table,
    user_to_delete,
)
from pylogbroker.web.links import link
from pylogbroker.web.page_routes import form, moved, page

_USERS: Final = "/access/users"
_PASSWORD: Final = page("/access/users/password", new_password, "access-password")
_DELETE_USER: Final = page("/access/users/{name}/delete", user_to_delete, "access-user-delete")

ACCESS_PAGES: Final = (
    page("/access/users", user_table, "access-users"),
    _PASSWORD,
    _DELETE_USER,
    form("/access/users/password", set_password_of_form, _PASSWORD, lambda done: link(_USERS, search=done["name"])),
    form("/access/users/{name}/delete", delete_user_confirmed, _DELETE_USER, lambda done: _USERS),
    moved("/access", lambda given: _USERS),
    moved("/users", lambda given: link(_USERS, search=given.get("search"))),
)
