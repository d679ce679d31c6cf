"""Routes of the pages of brokers and of their forms, and their old addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from pylogbroker.web.brokers.reassignments import cancel_reassignment, reassignment_page
from pylogbroker.web.brokers.settings import alter_broker_setting, broker_settings
from pylogbroker.web.brokers.table import broker_page, broker_table, directory_page, elect_leaders
from pylogbroker.web.links import link, path_of
from pylogbroker.web.page_routes import form, moved, page

_BROKERS: Final = page("/brokers", broker_table, "brokers", is_live=True)
_REASSIGNMENTS: Final = page("/brokers/reassignments", reassignment_page, "reassignments")
_SETTINGS: Final = page("/brokers/{broker}/settings", broker_settings, "broker-settings")


def _settings_of(done: Mapping[str, Any]) -> str:
    return f"{link(path_of('brokers', done['broker'], 'settings'), changed='true')}#{quote(done['setting'])}"


def _directory(given: Mapping[str, str]) -> str:
    return link(path_of("brokers", given.get("broker", ""), "log-directory"), path=given.get("path"))


BROKER_PAGES: Final = (
    _BROKERS,
    page("/brokers/{broker}", broker_page, "broker"),
    page("/brokers/{broker}/log-directory", directory_page, "broker-log-directory"),
    form("/brokers/elect-leaders", elect_leaders, _BROKERS, lambda done: "/brokers"),
    _SETTINGS,
    form("/brokers/{broker}/settings", alter_broker_setting, _SETTINGS, _settings_of),
    _REASSIGNMENTS,
    form("/brokers/reassignments", cancel_reassignment, _REASSIGNMENTS, lambda done: "/brokers/reassignments"),
    moved("/log-directory", _directory),
)
