"""The table of clients under faults in docs/testing.md: its faults are those of the program, and its cells are run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.adapters.base import Client
from tests.clients.adapters.java import Java
from tests.docs.page_programs import ROOT
from tests.support.budget import Budget
from tests.testing.faults.client_table import CASES, CLIENTS, outcome

SECTION = (ROOT / "docs" / "testing.md").read_text().partition("### Clients under faults")[2].partition("\n## ")[0]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in SECTION.splitlines() if line.startswith("| ")]
#: Clients without a process of their own.
QUICK_CLIENTS = ("librdkafka", "aiokafka", "kafka-python")
#: Faults that clients meet in different ways.
CHOSEN = [
    "the same, idempotent",
    "`Produce`: TOPIC_AUTHORIZATION_FAILED",
    "the same, after two old answers to `Metadata`",
    "`Fetch`: OFFSET_OUT_OF_RANGE once",
    "the first two connections closed",
]


def check(name: str, client: Client, budget: Budget) -> None:
    """Compare a client's cells with the page: those of the chosen faults, or all."""
    texts = [case.text for case in CASES]
    column = ROWS[0].index(name)
    for number in budget.of([texts.index(text) for text in CHOSEN], list(range(len(CASES)))):
        assert outcome(client, CASES[number]) == ROWS[number + 1][column], texts[number]


@pytest.fixture
def java() -> Iterator[Java]:
    client = CLIENTS["Java"]()
    assert isinstance(client, Java)
    yield client
    client.close()


def test_the_page_has_all_clients_and_faults() -> None:
    assert ROWS[0] == ["fault", *CLIENTS]
    assert [row[0] for row in ROWS[1:]] == [case.text for case in CASES]


@pytest.mark.parametrize("name", QUICK_CLIENTS)
def test_clients_behave_as_the_page_says(name: str, budget: Budget) -> None:
    check(name, CLIENTS[name](), budget)


def test_javas_client_behaves_as_the_page_says(java: Java, budget: Budget) -> None:
    check("Java", java, budget)
