"""The error codes beside those of Kafka's Java clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylogbroker.errors import ErrorCode
from tests.peers.java import CLIENTS, Program
from tests.support.oracle_answers import OracleAnswers


@pytest.mark.parametrize("clients", CLIENTS)
def test_codes_names_and_retries_are_kafkas(clients: str, oracle: OracleAnswers) -> None:
    program = Program(Path(__file__).with_name("ErrorCodes.java"), clients)
    lines = oracle.answer(f"error-codes-{clients}", program.source.read_bytes(), lambda: program.run().stdout)
    theirs = {int(code): (name, retriable == "true") for code, name, retriable in map(str.split, lines.splitlines())}
    newest = max(theirs)
    assert {code.value: (code.name, code.retriable) for code in ErrorCode if code <= newest} == theirs
    assert newest == max(ErrorCode) or clients != "clients-4"
