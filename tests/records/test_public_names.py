from __future__ import annotations

import doctest

import pylogbroker.records


def test_the_example_of_the_package() -> None:
    results = doctest.testmod(pylogbroker.records)
    assert (results.failed, results.attempted > 3) == (0, True)
