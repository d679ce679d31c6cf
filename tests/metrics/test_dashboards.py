"""The dashboard and the alerts of etc, against the table of metrics.

`test_scrape` shows that each metric of the table is served, with its labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.exposition import generate_latest

from pylogbroker.metrics.collector import process_registry
from pylogbroker.metrics.families import FAMILIES
from tests.metrics.boards import alerts, board
from tests.metrics.samples import sample_name

ROOT = Path(__file__).parents[2]
LABELS = {sample_name(family): set(family.labels) for family in FAMILIES} | {"up": set[str]()}
ADDED_BY_PROMETHEUS = {"instance", "job"}
WORDS = {"label_values", "histogram_quantile", "min_over_time", "max_over_time"}
KAFKA_BOARDS = (Path(__file__).parent / "dashboard_names.txt").read_text().split()
"""Names that dashboards and alerts of others ask for: strimzi's for Kafka, and those of kafka_exporter."""


def expressions() -> Iterator[str]:
    for panel in board()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (rule["expr"] for rule in alerts())
    for variable in board()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]


def process_metrics() -> dict[str, set[str]]:
    text = generate_latest(process_registry()).decode()
    return {name: set() for name in re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)}


def test_each_expression_asks_for_metrics_and_labels_that_there_are() -> None:
    known = LABELS | process_metrics()
    found = list(expressions())
    assert len(found) > 40
    for expression in found:
        selected = re.sub(r'"[^"]*"|\[[^]]*\]', "", expression)
        names = set(re.findall(r"\b[a-z]\w*_\w+|\bup\b", re.sub(r"\{[^}]*\}|(by|on) \([^)]*\)", "", selected))) - WORDS
        assert names, expression
        assert names <= set(known), expression
        labels = {label for inside in re.findall(r"\{([^}]*)\}", selected) for label in re.findall(r"\w+", inside)}
        for grouped in re.findall(r"(?:by|on) \(([^)]*)\)", selected):
            labels |= set(re.findall(r"\w+", grouped))
        served = set.union(*(known[name] for name in names)) | ADDED_BY_PROMETHEUS
        assert labels <= served, expression


def test_names_that_dashboards_of_others_ask_for() -> None:
    assert not set(KAFKA_BOARDS) - set(LABELS)


def test_each_alert_is_explained() -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    explained = re.findall(r"^\| `([A-Z]\w+)` \|", page, re.MULTILINE)
    assert explained == [rule["alert"] for rule in alerts()]
