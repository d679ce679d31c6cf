"""Uses of kcat beyond writing and reading: lists, the last few, from a time on, whole files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pylogbroker.cli import main
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.kcat import available, run_kcat
from tests.clients.admin import create_topic
from tests.clients.log_lines import generated
from tests.clients.model import START, Rec

pytestmark = pytest.mark.skipif(not available(), reason="kcat is not installed")


def test_list(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    listed = json.loads(run_kcat(bootstrap, "-L", "-J", "-t", topic))
    (broker,) = listed["brokers"]
    assert broker["name"] == bootstrap
    assert listed["controllerid"] == broker["id"]
    (found,) = listed["topics"]
    assert [each["partition"] for each in found["partitions"]] == [0, 1]
    assert all(each["leader"] == broker["id"] for each in found["partitions"])


def test_a_log_file_line_by_line(bootstrap: str, topic: str, tmp_path: Path) -> None:
    lines = generated(2000)
    log = tmp_path / "access.log"
    log.write_bytes(b"\n".join(lines) + b"\n")
    run_kcat(bootstrap, "-P", "-t", topic, "-z", "zstd", "-l", str(log))
    assert run_kcat(bootstrap, "-C", "-q", "-t", topic, "-e") == log.read_bytes()
    assert run_kcat(bootstrap, "-C", "-q", "-t", topic, "-o", "-3", "-e").splitlines() == lines[-3:]


def test_between_two_times(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    records = [Rec(str(each).encode(), timestamp=START + 1000 * each) for each in range(10)]
    Confluent().write(bootstrap, topic, records)
    bounds = ("-o", f"s@{START + 3000}", "-o", f"e@{START + 6000}")
    assert run_kcat(bootstrap, "-C", "-q", "-t", topic, "-p", "0", *bounds).split() == [b"3", b"4", b"5"]


def test_query_of_offsets(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    Confluent().write(bootstrap, topic, [Rec(b"x", timestamp=START + 1000 * each) for each in range(5)])
    answer = run_kcat(bootstrap, "-Q", "-t", f"{topic}:0:{START + 2000}", "-t", f"{topic}:0:-1").decode()
    assert f"{topic} [0] offset 5" in answer or f"{topic} [0] offset 2" in answer


def test_every_record_of_a_pipe(bootstrap: str, topic: str) -> None:
    """The five-minute tour: echo into kcat, and out of it again."""
    run_kcat(bootstrap, "-P", "-t", topic, "-K", ":", input=b"a:1\nb:2\na:3\n")
    assert run_kcat(bootstrap, "-C", "-q", "-t", topic, "-e", "-K", ":") == b"a:1\nb:2\na:3\n"


def test_letters_of_formats(bootstrap: str, topic: str) -> None:
    """`pylogbroker consume` prints the same as kcat."""
    create_topic(bootstrap, topic)
    records = [
        Rec(b"value", b"key", (("a", b"1"), ("b", b"2")), START),
        Rec(b"", b"", (), START + 1),
        Rec(None, None, (), START + 2),
    ]
    Confluent().write(bootstrap, topic, records)
    letters = r"%t %p %o %T %k %K %s %S %R %h\t\x41\n"
    theirs = run_kcat(bootstrap, "-C", "-q", "-t", topic, "-p", "0", "-e", "-f", letters)
    ours = CliRunner().invoke(main, ["consume", topic, "-e", "-f", letters, "-b", bootstrap])
    assert (ours.exit_code, ours.stdout_bytes) == (0, theirs)
    assert theirs.count(b"A\n") == 3
