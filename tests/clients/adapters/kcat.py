"""kcat, the command line client of librdkafka: one process for each call.

It writes what comes on its standard input, split at two separators that occur in no test's bytes; that an empty key
or value means null, and the headers, are options of the whole process, so each run of records alike in this has its
own. It reads into a format with the sizes first: `partition offset timestamp key-size value-size`, a line
feed, key, value, headers, a line feed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import ClassVar

from tests.clients.adapters.base import TIMEOUT, Abilities, Acks, Codec, Rejected
from tests.clients.model import Header, Rec

AFTER_KEY = b"<-key of kcat->"
AFTER_VALUE = b"<-value of kcat->"
FORMAT = "%p %o %T %K %S\\n%k%s%h\\n"
#: Kafka's numbers of the errors that librdkafka only names
CODES = {
    "Broker: Offset out of range": 1,
    "Broker: Unknown topic or partition": 3,
    "Broker: Message size too large": 10,
    "Broker: Invalid topic": 17,
    "Broker: Broker failed to validate record": 87,
}


class Kcat:
    name: str = "kcat"
    can: ClassVar[Abilities] = Abilities(sets_timestamps=False, null_key_and_value=False)

    def write(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[Rec],
        *,
        codec: Codec = "none",
        acks: Acks = "all",
        idempotent: bool = False,
    ) -> None:
        for (partition, nulls, headers), run in groupby(records, _way_of_writing):
            run_kcat(
                bootstrap, "-P", "-t", topic, "-p", str(partition), "-z", codec,
                "-X", f"acks={acks}", "-X", f"enable.idempotence={str(idempotent).lower()}",
                "-X", "message.max.bytes=10000000", "-X", "linger.ms=20",
                "-K", AFTER_KEY.decode(), "-D", AFTER_VALUE.decode(), *(["-Z"] if nulls else []),
                *(option for header in headers for option in ("-H", _option(header))),
                input=b"".join(_line(record) for record in run),
            )  # fmt: skip

    def read(self, bootstrap: str, topic: str, partitions: Sequence[int]) -> list[Rec]:
        found: list[Rec] = []
        for partition in partitions:
            found.extend(_consume(bootstrap, topic, partition, "beginning", "-e"))
        return found

    def read_from(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Rec]:
        return list(_consume(bootstrap, topic, partition, str(offset), "-c", str(count)))

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        answer = run_kcat(bootstrap, "-Q", "-t", f"{topic}:{partition}:{timestamp}")
        offset = int(answer.split()[-1])  # "topic [0] offset 7"
        return offset if offset >= 0 else None


def available() -> bool:
    """True if tests run that need kcat: if it is there, and in CI always, where its lack is a failure."""
    return "CI" in os.environ or shutil.which("kcat") is not None


def run_kcat(bootstrap: str, *arguments: str, input: bytes = b"") -> bytes:
    """Return kcat's output; Rejected if it ends with an error."""
    command = ["kcat", "-b", bootstrap, *arguments]
    done = subprocess.run(command, input=input, capture_output=True, timeout=TIMEOUT)
    if done.returncode:
        error_line = done.stderr.decode(errors="replace")
        raise Rejected(next((code for text, code in CODES.items() if text in error_line), -1), error_line)
    return done.stdout


def _consume(bootstrap: str, topic: str, partition: int, offset: str, *options: str) -> Iterator[Rec]:
    where = ("-t", topic, "-p", str(partition), "-o", offset)
    settings = ("-X", "fetch.error.backoff.ms=10", "-X", "fetch.wait.max.ms=50", "-X", "auto.offset.reset=error")
    yield from parse(run_kcat(bootstrap, "-C", "-q", "-u", *where, *settings, "-f", FORMAT, *options))


def parse(output: bytes) -> Iterator[Rec]:
    """The records of what FORMAT prints."""
    position = 0
    while position < len(output):
        end = output.index(b"\n", position)
        partition, offset, timestamp, key_size, value_size = map(int, output[position:end].split())
        key_end = end + 1 + max(key_size, 0)
        value_end = key_end + max(value_size, 0)
        position = output.index(b"\n", value_end) + 1
        yield Rec(
            value=None if value_size < 0 else output[key_end:value_end],
            key=None if key_size < 0 else output[end + 1 : key_end],
            headers=tuple(_header(each) for each in output[value_end : position - 1].split(b",") if each),
            timestamp=timestamp,
            partition=partition,
            offset=offset,
        )


def _way_of_writing(record: Rec) -> tuple[int, bool, tuple[Header, ...]]:
    return record.partition, record.value is None, record.headers


def _line(record: Rec) -> bytes:
    key = b"" if record.key is None else record.key + AFTER_KEY
    return key + (record.value or b"") + AFTER_VALUE


def _option(header: Header) -> str:
    name, value = header
    return name if value is None else f"{name}={value.decode()}"


def _header(text: bytes) -> Header:
    name, _, value = text.partition(b"=")
    return name.decode(), None if value == b"NULL" else value
