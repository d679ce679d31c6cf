"""Declarations of metrics: kinds, labels and help. `families` has the table of those that the broker serves."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"


@attrs.frozen(eq=False, repr=False)  # a key of dictionaries, for each line
class Family:
    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    of_partitions: bool = False
    """One sample for each partition: left out with metrics.partitions.enable=false."""


DECLARED: Final[list[Family]] = []
TOPIC: Final = ("topic",)
PARTITION: Final = ("topic", "partition")
GROUP: Final = ("consumergroup",)


def counter(name: str, help: str, *labels: str) -> Family:
    return _add(Family(name, Kind.COUNTER, labels, help))


def gauge(name: str, help: str, *labels: str) -> Family:
    return _add(Family(name, Kind.GAUGE, labels, help))


def summary(name: str, help: str, *labels: str) -> Family:
    return _add(Family(name, Kind.SUMMARY, (*labels, "quantile"), help))


def histogram(name: str, help: str, *labels: str) -> Family:
    return _add(Family(name, Kind.HISTOGRAM, (*labels, "le"), help))


def of_partitions(name: str, help: str) -> Family:
    return _add(Family(name, Kind.GAUGE, PARTITION, help, of_partitions=True))


def _add(family: Family) -> Family:
    DECLARED.append(family)
    return family
