"""Modules that are imported on first use, and the tables that have them."""

from __future__ import annotations

import json
import sys

import pytest

from pylogbroker import features
from pylogbroker.tap import preload


def test_a_module_is_imported_when_its_first_attribute_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "json")
    late = features.on_first_use("json")
    assert not hasattr(late, "__wrapped__")
    assert "json" not in sys.modules
    assert late.loads("[1]") == [1]
    assert "json" in sys.modules


def test_a_replaced_attribute_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    late = features.on_first_use("json")
    monkeypatch.setattr(json, "loads", lambda text: text)
    assert late.loads("[1]") == "[1]"


def test_a_module_outside_of_the_tables_is_not_imported_late() -> None:
    with pytest.raises(KeyError, match="socket is in no table"):
        features.on_first_use("socket")


def test_every_row_exists_once() -> None:
    rows = [module for table in features.TABLES for modules in table.values() for module in modules]
    assert len(set(rows)) == len(rows)


def test_a_process_that_loses_its_files_starts_without_the_packages_of_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)
    monkeypatch.delitem(sys.modules, "pylogbroker.security.sasl.signed_tokens", raising=False)
    preload.import_all()
    assert "pylogbroker.broker.membership.cluster_role" in sys.modules
    assert "pylogbroker.security.sasl.signed_tokens" not in sys.modules
