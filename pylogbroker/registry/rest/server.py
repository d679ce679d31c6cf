"""Requests about the registry itself."""

from __future__ import annotations

from typing import Any, Final

from pylogbroker import __version__
from pylogbroker.registry.rest.calls import RegistryCall
from pylogbroker.registry.rest.fields import ServerId, ServerVersion

_REGISTRY_CLUSTER: Final = "schema-registry"
"""Name of a group of registries, as Confluent's `schema.registry.group.id` has it by default."""


def root(call: RegistryCall) -> dict[str, Any]:
    """Return an empty object."""
    return {}


def check_post(call: RegistryCall) -> dict[str, Any]:
    """Return an empty object to any body: clients see whether they reach the registry."""
    return {}


def server_id(call: RegistryCall) -> ServerId:
    """Return the ids of the cluster and of its registry."""
    clusters = {"kafka-cluster": call.cluster_id, "schema-registry-cluster": _REGISTRY_CLUSTER}
    return {"scope": {"path": [], "clusters": clusters}, "id": ""}


def server_version(call: RegistryCall) -> ServerVersion:
    """Return the version of this broker; there is no commit."""
    return {"version": __version__, "commitId": ""}


def deployment(call: RegistryCall) -> dict[str, list[str]]:
    """Return the attributes of the deployment, of which there are none."""
    return {"attributes": []}
