"""Each module of `pylogbroker.broker.apis` registers one API, and no two handlers serve the same API."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylogbroker.broker import apis
from pylogbroker.broker.api import serves
from pylogbroker.broker.security.rules import unchecked
from pylogbroker.wire import SUPPORTED
from pylogbroker.wire.messages.fetch import FetchRequest

NOT_SERVED: set[str] = set()
"""Declared APIs of a cluster that have no handler, so that ApiVersions does not advertise them."""


def test_each_module_registers_the_api_of_its_name() -> None:
    modules = {path.stem for path in Path(apis.__file__).parent.glob("*.py")} - {"__init__"}
    handlers = {api.handle.__module__.rpartition(".")[2]: api for api in apis.APIS}
    assert set(handlers) == modules
    assert {module: api.request.__module__.rpartition(".")[2] for module, api in handlers.items()} == {
        module: module for module in modules
    }


def test_every_declared_api_is_served_or_known_to_be_not() -> None:
    served = {api.key for api in apis.APIS}
    assert {SUPPORTED[key][0].__name__.removesuffix("Request") for key in SUPPORTED if key not in served} == NOT_SERVED


def test_apis_of_clusters_are_marked() -> None:
    assert {api.name for api in apis.APIS if api.cluster_only} == {
        "AllocateProducerIds",
        "AlterPartition",
        "AlterPartitionReassignments",
        "ControlledShutdown",
        "ElectLeaders",
        "LeaderAndIsr",
        "ListPartitionReassignments",
        "StopReplica",
        "UpdateFeatures",
        "UpdateMetadata",
    }


def test_an_api_has_one_handler() -> None:
    with pytest.raises(ValueError, match=r"Fetch has two handlers: pylogbroker.broker.apis.fetch and .*test_api_reg"):
        serves(FetchRequest, access=[unchecked])(lambda broker, context, request: None)


def test_every_api_says_what_its_sender_must_be_allowed() -> None:
    assert [api.name for api in apis.APIS if not api.access] == []
    assert {api.name for api in apis.APIS if unchecked in api.access} == {
        "ApiVersions",
        "SaslHandshake",
        "SaslAuthenticate",
    }
