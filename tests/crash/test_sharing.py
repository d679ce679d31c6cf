"""Members of a share group work while their broker is killed: each record is finished once, and none is forgotten.

The long run is `python -m tests.crash --workload sharing`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cluster.replica_logs import LogRecord
from tests.crash.__main__ import sharing_run
from tests.crash.kill_moments import KillContext
from tests.crash.run import Run
from tests.crash.shared_records import ACCEPT, DELIVERIES_MAX, RELEASE, Delivery, SharedRecords
from tests.crash.stamps import Stamp, value_of
from tests.crash.workloads import sharing
from tests.crash.workloads.sharing import Sharing, java, librdkafka, own
from tests.peers import available
from tests.support.budget import Budget
from tests.support.waiting import wait_until

USUAL = (5, 6.0)  # kills, seconds
THOROUGH = (60, 180.0)
FEWEST = 4
EXCEEDED = {"shared: records finished": 50}
STAMP = Stamp("p", "shared", 0, 0)
RECORD = ("shared", 0), 7


def test_each_record_is_finished_once(tmp_path: Path, budget: Budget) -> None:
    """Java's members start slowly: they take part with `--thorough`."""
    clients = (librdkafka, own, *budget.of((), (librdkafka, own, *((java, java) if available() else ()))))
    run = sharing_run(tmp_path, Sharing(clients), budget.seed_of("sharing"))
    outcome = run.go(*budget.of(USUAL, THOROUGH), FEWEST, EXCEEDED)
    print(outcome)
    assert outcome.violations == []
    assert outcome.number("kills") >= FEWEST


def test_figures_that_a_run_waits_for_are_there_before_the_first_record() -> None:
    figures = Sharing(()).figures()
    assert {name: figures[name] for name in EXCEEDED} == dict.fromkeys(EXCEEDED, 0)


class Sabotage(Run):
    """A run whose broker loses the states of share groups in a crash."""

    def __init__(self, directory: Path) -> None:
        self._work = Sharing((librdkafka, own))
        moments = {"after records were finished": self._after_records_were_finished}
        super().__init__(directory, [self._work], seed=1, settings=sharing.ALONE, moments=moments)

    def _after_records_were_finished(self, scene: KillContext) -> None:
        before = self._work.records.counts["records finished"]
        wait_until(lambda: self._work.records.counts["records finished"] > before + 20)
        scene.victim.strike()

    def _bury(self) -> None:
        super()._bury()
        for path in (self._directory / "broker" / "data").glob("__share_group_state_*/*.kafka"):
            shutil.copyfile("/dev/null", path)


def test_a_lost_state_is_seen(tmp_path: Path) -> None:
    outcome = Sabotage(tmp_path).go(kills=20, seconds=300)  # it ends with the first violation
    print(*outcome.violations[:5], sep="\n")
    assert "again" in {violation.kind for violation in outcome.violations}


def delivery(count: int = 1, since: float = 0.0) -> Delivery:
    return Delivery(RECORD, count, since, "m")


def test_record_that_is_delivered_after_its_acknowledgement() -> None:
    for is_reported_late in (False, True):
        records = SharedRecords()
        records.deliver(delivery(), value_of(STAMP))
        records.acknowledging(delivery(), ACCEPT)
        if is_reported_late:
            records.deliver(delivery(2, 9.0), value_of(STAMP))
        records.acknowledge(delivery(), ACCEPT, 5.0)
        if not is_reported_late:
            records.deliver(delivery(2, 5.5), value_of(STAMP))  # may have been fetched before
            assert records.violations() == []
            records.deliver(delivery(2, 9.0), value_of(STAMP))
        assert [violation.kind for violation in records.violations()] == ["again"]


def test_records_that_are_not_finished() -> None:
    records = SharedRecords()
    records.deliver(delivery(), value_of(STAMP))
    records.acknowledging(delivery(), RELEASE)
    records.acknowledge(delivery(), RELEASE, 5.0)
    other = STAMP._replace(sequence=1)
    assert [violation.kind for violation in records.missing([STAMP, other], [])] == ["unfinished", "undelivered"]
    records.acknowledging(delivery(2), ACCEPT)
    assert list(records.missing([STAMP], [])) == []


def test_a_dead_letter_that_no_member_has_seen_is_not_missing() -> None:
    texts = {
        "topic": "shared",
        "partition": "0",
        "offset": "7",
        "group": "workers",
        "delivery.count": str(DELIVERIES_MAX),
        "message": "Offset delivery count exceeded the threshold.",
    }
    headers = tuple((f"__dlq.errors.{name}", text.encode()) for name, text in texts.items())
    letter = LogRecord(0, 0, None, value_of(STAMP), headers)
    records = SharedRecords()
    assert list(records.missing([STAMP], [letter])) == []
    assert records.counts["  that no member has seen"] == 1
    assert [violation.kind for violation in records.missing([STAMP._replace(sequence=1)], [letter])] == ["undelivered"]
