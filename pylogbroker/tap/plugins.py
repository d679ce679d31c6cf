"""The plugins that are installed, as the settings call them."""

from __future__ import annotations

from pylogbroker.broker.delete_policies import DeletePolicies
from pylogbroker.discovery import installed
from pylogbroker.interfaces import IDeletePolicyFactory


def delete_policies() -> DeletePolicies:
    """All delete policies."""
    return DeletePolicies(installed("delete policy", IDeletePolicyFactory))
