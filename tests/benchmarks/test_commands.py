"""The commands, at a tiny size, on this project's broker: every workload does what it says, and is in the table.

This file is imported only where benchmarks run: the commands import all clients.
"""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import (
    archive,
    broker,
    client,
    cluster,
    clusters,
    command,
    compaction,
    cores,
    figures,
    flush,
    lines,
    machine,
    mirror,
    rebalance,
    record_search,
    security,
    share,
    size,
    spark,
    system_calls,
    table,
    unit_costs,
)
from benchmarks.brokers import PROJECT
from benchmarks.errors import BenchmarkError
from benchmarks.processor import command_line, runs
from benchmarks.processor.works import WORKS
from benchmarks.session import Session
from benchmarks.workloads import WORKLOADS
from tests.peers import available


@pytest.fixture(autouse=True)
def leave_memory_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "TOUCHED_BYTES", 1 << 20)


def test_every_workload_is_measured(tmp_path: Path) -> None:
    options = ["--rounds", "1", "--warm-up", "0", "--scale", "0.01", "--markdown", "--directory", str(tmp_path)]
    done = CliRunner().invoke(broker.main, options, catch_exceptions=False)
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    assert rows[0] == ["work", "unit", "pylogbroker"]
    assert [row[:2] for row in rows[2:]] == [[each.title, unit] for each in WORKLOADS for unit in each.wanted]
    assert all(float(row[2].replace(",", "")) > 0 for row in rows[2:])
    assert list(tmp_path.iterdir()) == []


def test_tables_are_read_and_queried() -> None:
    done = CliRunner().invoke(table.main, ["--rounds", "1", "--scale", "0.001", "--markdown"], catch_exceptions=False)
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    titles = [row[0].partition(", ")[0] for row in rows]
    assert (titles.count("SQL"), titles.count("scan")) == (len(table.QUERIES), len(table.SCANS))


def test_mirror_copies_each_record(tmp_path: Path) -> None:
    options = ["--only", "1-kilobyte-zstd", "--rounds", "1", "--scale", "0.01", "--markdown"]
    done = CliRunner().invoke(mirror.main, [*options, "--directory", str(tmp_path)], catch_exceptions=False)
    assert "| 1-kilobyte-zstd | pylogbroker |" in done.output
    assert list(tmp_path.iterdir()) == []


def test_producers_are_measured_beside_a_reader_of_the_archive(tmp_path: Path) -> None:
    options = ["--gigabytes", "0.1", "--pairs", "2", "--seconds", "0.3", "--markdown", "--directory", str(tmp_path)]
    done = CliRunner().invoke(archive.main, options, catch_exceptions=False)
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    assert [row[0] for row in rows[2:]] == ["alone", "beside a reader of the archive"]
    assert float(rows[3][5].replace(",", "")) > 0
    assert list(tmp_path.iterdir()) == []


def test_share_group_is_measured_beside_a_classic_consumer(tmp_path: Path) -> None:
    options = ["--rounds", "1", "--warm-up", "0", "--scale", "0.01", "--markdown", "--directory", str(tmp_path)]
    done = CliRunner().invoke(share.main, options, catch_exceptions=False)
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    assert [row[0] for row in rows[2:]] == [
        "pylogbroker: classic consumer",
        "pylogbroker: share group",
        "pylogbroker: ratio",
    ]
    assert all(float(row[2].replace(",", "")) > 0 for row in rows[2:])
    assert list(tmp_path.iterdir()) == []


def test_processor_time_of_every_work_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RUNS", 1)
    options = ["--seconds", "0.001", "--markdown", "--directory", str(tmp_path)]
    done = CliRunner().invoke(command_line.main, options, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    assert rows[0] == ["work", "unit", "lowest", "quartile", "floor", "ratio", "recorded"]
    assert [row[0] for row in rows[2:]] == list(WORKS)
    for row in rows[2:]:
        lowest, quartile, floor, ratio = map(float, row[2:6])
        assert quartile >= lowest > 0
        assert ratio == pytest.approx(lowest / floor, rel=0.01)
    assert list(tmp_path.iterdir()) == []


def test_processor_time_is_compared_with_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RUNS", 1)
    options = ["fetch-64k", "--seconds", "0.001", "--markdown", "--against", "HEAD"]
    done = CliRunner().invoke(command_line.main, options, catch_exceptions=False)
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    assert rows[0] == ["work", "unit", "here", "HEAD", "ratio", "ratio of HEAD", "better"]
    assert [row[0] for row in rows[2:]] == ["fetch-64k"]
    ours, theirs = map(float, rows[2][4:6])
    assert float(rows[2][6].removesuffix(" x")) == pytest.approx(theirs / ours, rel=0.01)


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["no-work"], 2, "'no-work' is not one of 'produce-latency'"),
        (["--seconds", "0"], 2, "0.0 is not in the range x>0"),
        (["--check", "--record"], 2, "--against, --check and --record exclude each other"),
        (["--against", "--output=x"], 1, "--against --output=x: "),
        (["--against", "no-commit"], 1, "has no such commit; `git log --all` lists its commits"),
        (["--directory", "/nowhere"], 2, "Directory '/nowhere' does not exist"),
    ],
)
def test_wrong_options_of_the_processor_benchmark_are_rejected(options: list[str], status: int, message: str) -> None:
    done = CliRunner().invoke(command_line.main, options)
    assert (done.exit_code, message in done.output) == (status, True), done.output


def test_start_and_idle_size_are_measured(tmp_path: Path) -> None:
    options = ["--only", "start", "--only", "idle", "--directory", str(tmp_path)]
    done = CliRunner().invoke(size.main, options, catch_exceptions=False)
    assert "first connection on an empty data directory" in done.output
    assert "resident when idle" in done.output


def test_growth_with_partitions_is_measured_and_drawn(tmp_path: Path) -> None:
    plot = tmp_path / "growth.svg"
    options = ["--only", "growth", "--partitions", "2", "--partitions", "200", "--plot", str(plot)]
    done = CliRunner().invoke(size.main, [*options, "--directory", str(tmp_path)], catch_exceptions=False)
    assert "resident with 200 partitions" in done.output
    assert "resident for each further partition" in done.output
    assert plot.read_text().count("<circle") == 4
    assert list(tmp_path.iterdir()) == [plot]


def test_costs_of_connections_and_partitions_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_costs, "SETTLING_SECONDS", 0.1)
    monkeypatch.setattr(unit_costs, "ROUNDS", 1)
    options = ["--connections", "20", "--partitions", "60", "--seconds", "0.5", "--directory", str(tmp_path)]
    done = CliRunner().invoke(unit_costs.main, options, catch_exceptions=False)
    assert "20 connections: memory of each, idle" in done.output
    assert "100 partitions: open files of each" in done.output
    assert list(tmp_path.iterdir()) == []


def test_lines_are_written_and_read_by_both_commands(tmp_path: Path) -> None:
    options = ["--lines", "25000", "--markdown", "--directory", str(tmp_path)]
    done = CliRunner().invoke(lines.main, options, catch_exceptions=False)
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    assert [row[0] for row in rows[2:]] == ["produce 25,000", "consume 25,000", "consume in a group 25,000"]
    assert all(float(figure) > 0 for row in rows[2:] for figure in row[1:5])
    assert list(tmp_path.iterdir()) == []


def test_verbs_of_the_command_are_measured(tmp_path: Path) -> None:
    options = ["--rounds", "1", "--markdown", "--directory", str(tmp_path)]
    done = CliRunner().invoke(command.main, options, catch_exceptions=False)
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    assert [row[0] for row in rows[2:]] == [command.PYTHON, *command.VERBS, command.COMPLETION]
    assert all(float(row[2]) > 0 for row in rows[2:])
    assert list(tmp_path.iterdir()) == []


def test_system_calls_are_measured(tmp_path: Path) -> None:
    options = ["--rounds", "1", "--scale", "0.01", "--markdown", "--directory", str(tmp_path)]
    done = CliRunner().invoke(system_calls.main, options, catch_exceptions=False)
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 2 * len(system_calls.APPENDS) + 2
    assert all(float(row[2]) > 0 for row in rows[2:])


def test_syncs_are_measured(tmp_path: Path) -> None:
    options = ["--rounds", "1", "--warm-up", "0", "--scale", "0.02", "--markdown", "--directory", str(tmp_path)]
    done = CliRunner().invoke(flush.main, options, catch_exceptions=False)
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    assert rows[0] == ["work", "unit", "pylogbroker"]
    alone, one, many = (float(row[2].replace(",", "")) for row in rows[2:5])
    assert alone > 0
    assert many > one > 0
    assert "syncs as they are" in done.output
    assert list(tmp_path.iterdir()) == []


def test_tls_quotas_and_acls_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "WINDOWS_SECONDS", 2)
    monkeypatch.setattr(security, "QUOTA_SECONDS", 1)
    options = ["--rounds", "1", "--warm-up", "0", "--scale", "0.05", "--quota-periods", "1"]
    done = CliRunner().invoke(
        security.main, [*options, "--markdown", "--directory", str(tmp_path)], catch_exceptions=False
    )
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    works = [f"{name}, {kind}" for name in security.WORKLOADS for kind in ("plain", "TLS")]
    expected = [*([work, "ms/MB"] for work in works), *([f"quota of 1 MB/s, {until} s", "MB/s"] for until in (1, 2))]
    assert [row[:2] for row in rows[:8]] == [["work", "unit"], ["---", "---"], *expected]
    assert float(rows[3][2]) > 0
    assert [row[0] for row in rows[10:]] == ["single records, no authorizer", "single records, 1,000 ACLs"]
    assert all(float(row[2]) > 0 for row in rows[10:])
    assert list(tmp_path.iterdir()) == []


def test_clients_are_measured_side_by_side(tmp_path: Path) -> None:
    options = ["--rounds", "1", "--warm-up", "0", "--scale", "0.02", "--markdown", "--directory", str(tmp_path)]
    done = CliRunner().invoke(client.main, options, catch_exceptions=False)
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    clients = ["pylogbroker", "aiokafka", "kafka-python", "confluent-kafka"]
    assert rows[0][:6] == ["work", "unit", *clients]
    start_of_second = rows.index(["idempotent, to plain", "unit", *clients])
    rates, ratios = rows[2:start_of_second], rows[start_of_second + 2 :]
    assert [row[0] for row in rates] == [row.title for row in client.ROWS]
    for row in rates:
        own, aio, plain, confluent = (float(cell.replace(",", "")) for cell in row[2:6])
        assert min(own, aio, plain, confluent) > 0
        assert float(row[6].removesuffix(" x")) == pytest.approx(own / max(aio, plain), abs=0.01)
        assert float(row[8].removesuffix(" x")) == pytest.approx(own / confluent, abs=0.01)
    works = itertools.product(("produce 100 B", "produce 1 KB"), ("records/s", "processor time"))
    assert [tuple(row[:2]) for row in ratios] == list(works)
    assert all(float(cell.removesuffix(" x")) > 0 for row in ratios for cell in row[2:])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
def test_a_cluster_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "SETTINGS", {**clusters.SETTINGS, "zookeeper.session.timeout.ms": "2000"})
    options = ["--rounds", "1", "--warm-up", "0", "--scale", "0.01", "--partitions", "6", "--failovers", "1"]
    done = CliRunner().invoke(
        cluster.main, [*options, "--markdown", "--directory", str(tmp_path)], catch_exceptions=False
    )
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    assert rows[0] == ["work", "unit", "pylogbroker"]
    works = [(each.title, unit) for each in cluster.WORKLOADS for unit in each.wanted]
    works += [(title.format(6, "controller"), unit) for title, unit, _ in cluster.FAILOVER_ROWS]
    assert [tuple(row[:2]) for row in rows[2:]] == works
    assert all(float(row[2].replace(",", "")) > 0 for row in rows[2:])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.kafka
def test_a_cluster_on_a_controller_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**clusters.SETTINGS_ON_CONTROLLER, "broker.session.timeout.ms": "2000"}
    monkeypatch.setattr(clusters, "SETTINGS_ON_CONTROLLER", {**settings, "broker.heartbeat.interval.ms": "500"})
    options = ["--engine", "kraft", "--rounds", "1", "--warm-up", "0", "--scale", "0.01", "--only", "leader-killed"]
    options += ["--only", "controller-killed", "--partitions", "6", "--failovers", "1", "--directory", str(tmp_path)]
    done = CliRunner().invoke(cluster.main, [*options, "--markdown"], catch_exceptions=False)
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    titles = [
        "leader killed, to the next acknowledgement",
        *(title.format(6, "broker") for title, _, _ in cluster.FAILOVER_ROWS),
    ]
    assert [row[0] for row in rows[2:]] == titles
    assert all(float(row[2].replace(",", "")) > 0 for row in rows[2:])


def test_brokers_for_all_cores_are_measured(tmp_path: Path) -> None:
    """Two brokers reject requests for each other's partitions: the clients must follow the metadata."""
    options = ["--brokers", "2", "--generators", "2", "--pairs", "2", "--rounds", "1", "--warm-up", "0"]
    options += ["--scale", "0.02", "--markdown", "--directory", str(tmp_path)]
    done = CliRunner().invoke(cores.main, options, catch_exceptions=False)
    lines = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    loads = cores.loads(2)
    rows, [_, _, processes] = lines[2:-3], lines[-3:]
    assert [row[:2] for row in rows] == [
        [each.title, name] for each in loads for name in ("pylogbroker", "--brokers 2")
    ]
    for single, several in zip(rows[::2], rows[1::2], strict=True):
        assert single[3] == "1.00 x"
        assert float(several[3].removesuffix(" x")) > 0
        assert float(single[2].replace(",", "")) > 0
    assert processes[0] == "--brokers 2"
    assert all(float(cell) > 0 for cell in processes[1:])
    assert list(tmp_path.iterdir()) == []


def test_a_generator_that_fails_ends_the_measurement(capfd: pytest.CaptureFixture[str]) -> None:
    def connect(*_: object) -> list[cores.Member]:
        raise BenchmarkError("no connection")

    load = cores.Load("none", "none", partitions=1, count=1, unit_bytes=1, connect=connect)
    with pytest.raises(BenchmarkError, match="load generator has failed"):
        cores.generate(cores.Measured("none", Session("127.0.0.1", 1), ()), "none", load, [range(1)], 1)
    assert "no connection" in capfd.readouterr().err


@pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
def test_spark_sources_are_measured_side_by_side(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.spark", "--quick", "--markdown", "--directory", str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("|")]
    assert rows[0] == ["work", "unit", "pylogbroker", "Spark's connector", "ratio", "wanted"]
    assert [row[:2] for row in rows[2:]] == [[work.title, work.unit] for work in spark.WORK]
    for work, row in zip(spark.WORK, rows[2:], strict=True):
        own, other = (float(cell.replace(",", "")) for cell in row[2:4])
        more, less = (other, own) if work.unit == "ms" else (own, other)
        ratio = float(row[4].removesuffix(" x"))
        assert (more - 0.5) / (less + 0.5) - 0.01 <= ratio  # the printed figures are rounded
        assert ratio * (less - 0.5) <= more + 0.5 + 0.01 * less
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
def test_compaction_of_a_small_topic_is_measured(tmp_path: Path) -> None:
    options = ["--megabytes", "2", "--keys", "1000", "--rounds", "1", "--warm-up", "0", "--markdown"]
    done = CliRunner().invoke(compaction.main, [*options, "--directory", str(tmp_path)], catch_exceptions=False)
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    assert [row[0] for row in rows[2:]] == ["learn the keys", "all", "all, by processor time"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--megabytes", "--keys", "--rounds"])
def test_compaction_of_zero_size_is_rejected(option: str) -> None:
    done = CliRunner().invoke(compaction.main, [option, "0"])
    assert done.exit_code == 2
    assert "0 is not in the range" in done.output


def test_rebalances_of_both_protocols_are_measured(tmp_path: Path) -> None:
    options = ["--members", "20", "--partitions", "30", "--rounds", "1", "--warm-up", "0", "--markdown"]
    result = CliRunner().invoke(rebalance.main, [*options, "--directory", str(tmp_path)])
    assert result.exit_code == 0, result.output
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in result.output.splitlines() if "|" in line]
    steps = ("20 members join", "2 members leave")
    expected = [f"{protocol}: {step}" for protocol in ("classic", "consumer") for step in steps]
    assert [row[0] for row in rows[2:]] == [step for step in expected for _ in range(3)]
    assert all(float(row[2]) > 0 for row in rows[2:] if row[1] == "s")


def test_searches_in_records_are_measured() -> None:
    result = CliRunner().invoke(record_search.main, ["--records", "3000", "--rounds", "1", "--markdown"])
    assert result.exit_code == 0, result.output
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in result.output.splitlines() if "|" in line]
    assert [row[0] for row in rows[2:]] == [*record_search.SEARCHES]
    matches = {row[0]: int(row[1].replace(",", "")) for row in rows[2:]}
    assert matches["text needle-7"] == 1
    assert matches['value.customer ~ "C-77"'] > 10
    assert matches["not exists value.status"] == 0


def test_error_of_costs_of_viewers() -> None:
    assert figures.error_of([1.0, 3.0, 1.0, 3.0]) == pytest.approx(2 * (4 / 3) ** 0.5 / 2)
    assert figures.error_of([1.0]) == float("inf")
