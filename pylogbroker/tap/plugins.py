"""Installed plugins of the broker, by their names in settings."""

from __future__ import annotations

from pylogbroker.broker.partitions.delete_policies import DeletePolicies
from pylogbroker.discovery import installed
from pylogbroker.interfaces import IDeletePolicyFactory


def delete_policies() -> DeletePolicies:
    return DeletePolicies(installed("delete policy", IDeletePolicyFactory))
