"""Names of samples."""

from __future__ import annotations

from pylogbroker.metrics.declarations import Family, Kind


def sample_name(family: Family) -> str:
    """Return the name of a family's samples that have all its labels."""
    return f"{family.name}_bucket" if family.kind is Kind.HISTOGRAM else family.name
