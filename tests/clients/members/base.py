"""Output and commands of every member, of any client library.

    python -m tests.clients.members.confluent_member BOOTSTRAP GROUP TOPIC SESSION_MS INSTANCE|- ASSIGNOR

On its standard output, fields between tabs:

    assigned   0,1,2              the partitions that it has now
    record     partition offset timestamp key value headers     (as in `model`)
    committed                     a commit was acknowledged
    closed                        it has left the group and ends

On its standard input: `commit` or `commit METADATA` (commits what it has read), and `close`. What it has read is
committed only by the command `commit`.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterable

import attrs

from tests.clients.model import Rec, to_row

#: An assignor of brokers: with it, a member is one of KIP-848, whose session and heartbeats the broker sets.
UNIFORM = "uniform"
HEARTBEAT_MS = 200
POLL_SECONDS = 0.05


@attrs.frozen
class Arguments:
    bootstrap: str
    group: str
    topic: str
    session_ms: int
    instance: str | None
    assignor: str


def arguments() -> Arguments:
    bootstrap, group, topic, session_ms, instance, assignor = sys.argv[1:]
    return Arguments(bootstrap, group, topic, int(session_ms), None if instance == "-" else instance, assignor)


def commands() -> queue.SimpleQueue[str]:
    """The lines of standard input, as they come; `close` at its end."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line.strip())
        lines.put("close")

    threading.Thread(target=read, daemon=True).start()
    return lines


def next_command(lines: queue.SimpleQueue[str]) -> str:
    """The next command, or nothing."""
    try:
        return lines.get_nowait()
    except queue.Empty:
        return ""


def metadata_of(command: str) -> str:
    return command.removeprefix("commit").strip()


def say(*fields: str) -> None:
    print("\t".join(fields), flush=True)


def say_assigned(partitions: Iterable[int]) -> None:
    say("assigned", ",".join(map(str, sorted(partitions))))


def say_record(record: Rec) -> None:
    say("record", to_row(record))
