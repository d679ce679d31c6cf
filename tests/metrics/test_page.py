"""The page of all metrics."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from pylogbroker.metrics.__main__ import as_markdown
from pylogbroker.metrics.declarations import Kind
from pylogbroker.metrics.families import FAMILIES

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_is_the_one_that_the_table_gives() -> None:
    assert PAGE.read_text() == as_markdown(FAMILIES), "generate it: python -m pylogbroker.metrics > docs/metrics.md"


def test_names_follow_the_rules_of_the_format() -> None:
    assert max(Counter(family.name for family in FAMILIES).values()) == 1
    for family in FAMILIES:
        assert re.fullmatch(r"[a-z_]+", family.name), family.name
        assert (family.kind is Kind.COUNTER) == family.name.endswith("_total"), family.name
        assert re.fullmatch(r"[^\n]+\.", family.help), family.name
