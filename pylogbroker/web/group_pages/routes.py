"""Routes of the pages of groups and of their forms, and their old addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pylogbroker.web.group_pages.deletion import (
    delete_group_confirmed,
    delete_offsets_confirmed,
    group_to_delete,
    offsets_to_delete,
)
from pylogbroker.web.group_pages.details import group_details
from pylogbroker.web.group_pages.reset import reset_group_confirmed, reset_page
from pylogbroker.web.group_pages.share import share_group_details
from pylogbroker.web.group_pages.table import group_table
from pylogbroker.web.links import link, path_of
from pylogbroker.web.page_routes import form, moved, page

_LIST: Final = "/groups"
_RESET: Final = page("/groups/{id}/reset", reset_page, "group-reset")
_DELETE: Final = page("/groups/{id}/delete", group_to_delete, "group-delete")
_DELETE_OFFSETS: Final = page("/groups/{id}/delete-offsets", offsets_to_delete, "group-delete-offsets")
_RESET_PARAMETERS: Final = ("topic", "partition", "to", "offset", "time", "by")


def _group(given: Mapping[str, str]) -> str:
    return path_of("groups", given["id"])


def _moved_group(given: Mapping[str, str]) -> str:
    return _group(given) if given.get("id") else _LIST


def _moved_reset(given: Mapping[str, str]) -> str:
    if not given.get("id"):
        return _LIST
    return link(f"{_group(given)}/reset", **{name: given.get(name) for name in _RESET_PARAMETERS})


GROUP_PAGES: Final = (
    page(_LIST, group_table, is_live=True),
    page("/groups/{id}", group_details, "group", is_live=True),
    page("/share-groups/{id}", share_group_details, "share-group", is_live=True),
    _RESET,
    _DELETE,
    _DELETE_OFFSETS,
    form("/groups/{id}/reset", reset_group_confirmed, _RESET, _group),
    form("/groups/{id}/delete", delete_group_confirmed, _DELETE, lambda done: _LIST),
    form("/groups/{id}/delete-offsets", delete_offsets_confirmed, _DELETE_OFFSETS, _group),
    moved("/group", _moved_group),
    moved("/reset-group", _moved_reset),
)
