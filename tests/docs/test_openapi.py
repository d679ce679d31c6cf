"""The OpenAPI documents in docs/openapi are those that the routes make."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylogbroker.testing.openapi import DOCUMENTS, text_of

DIRECTORY = Path(__file__).parents[2] / "docs" / "openapi"


def test_there_are_no_others() -> None:
    assert {path.name for path in DIRECTORY.iterdir()} == set(DOCUMENTS)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_up_to_date(name: str) -> None:
    """Write them again with `python -m pylogbroker.testing.openapi docs/openapi`."""
    assert (DIRECTORY / name).read_text("utf-8") == text_of(DOCUMENTS[name]())
