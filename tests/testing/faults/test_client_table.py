"""The table of clients under faults in docs/testing.md: its faults are those of the program, and some cells are run."""

from __future__ import annotations

import pytest

from tests.docs.page_programs import ROOT
from tests.testing.faults.client_table import CASES, CLIENTS, outcome

SECTION = (ROOT / "docs" / "testing.md").read_text().partition("### Clients under faults")[2].partition("\n## ")[0]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in SECTION.splitlines() if line.startswith("| ")]
#: Clients without a process of their own.
QUICK_CLIENTS = ("librdkafka", "aiokafka", "kafka-python")
#: Faults that clients meet in different ways.
CHOSEN = (2, 4, 8, 9, 11)


def test_the_page_has_all_clients_and_faults() -> None:
    assert ROWS[0] == ["fault", *CLIENTS]
    assert [row[0] for row in ROWS[1:]] == [case.text for case in CASES]


@pytest.mark.parametrize("name", QUICK_CLIENTS)
def test_clients_behave_as_the_page_says(name: str) -> None:
    client, column = CLIENTS[name](), ROWS[0].index(name)
    for number in CHOSEN:
        assert outcome(client, CASES[number]) == ROWS[number + 1][column], CASES[number].text
