"""The alerts of etc in Prometheus' own checks: each fires when it should, and not before, with its text."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pytest
import yaml

from tests.metrics.boards import alerts

RULES = Path(__file__).parents[2] / "etc" / "prometheus-alerts.yml"
pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool of Debian's prometheus")


@attrs.frozen
class Case:
    """Series by name and labels, in promtool's notation of values a minute, and what must fire in a minute."""

    alert: str
    minute: int
    series: Mapping[str, str]
    fires: Sequence[tuple[str, str]] = ()
    """Labels and summary of what fires. Labels without a value of their own are written `name=value`."""

    def as_yaml(self) -> dict[str, object]:
        (severity,) = (rule["labels"]["severity"] for rule in alerts() if rule["alert"] == self.alert)
        expected = [
            {
                "exp_labels": {"severity": severity, **dict(pair.split("=") for pair in labels.split())},
                "exp_annotations": {"summary": summary},
            }
            for labels, summary in self.fires
        ]
        return {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in self.series.items()],
            "alert_rule_test": [
                {"eval_time": f"{self.minute}m", "alertname": self.alert, "exp_alerts": expected},
            ],
        }


A, B, FOREIGN = (f'job="{job}",instance="h:1"' for job in ("pylogbroker-a", "pylogbroker-b", "kafka"))
HERE = "job=pylogbroker-a instance=h:1"
_CONTROLLER = "kafka_controller_kafkacontroller_activecontrollercount"
_METADATA_LAG = "kafka_server_brokermetadatametrics_last_applied_record_lag_ms"
_LAG = "kafka_consumergroup_lag_sum"
_GROUP = f'consumergroup="g",topic="t",{A}'
_FAILED = "kafka_server_brokertopicmetrics_failedproducerequests_total"
_PRODUCE = "pylogbroker_request_seconds_bucket"
_LOGIN = "kafka_server_socket_server_metrics_failed_authentication_total"

CASES = [
    Case("BrokerDown", 3, {f"up{{{A}}}": "1 0x9"}, [(HERE, "The broker h:1 does not answer")]),
    Case("BrokerDown", 3, {f"up{{{A}}}": "1x9", f"up{{{FOREIGN}}}": "0x9"}),
    # two clusters, each with a controller; a follower has 0
    Case("NoActiveController", 5, {f"{_CONTROLLER}{{{A}}}": "1x9", f"{_CONTROLLER}{{{B}}}": "1x9"}),
    Case("NoActiveController", 5, {f"{_CONTROLLER}{{{FOREIGN}}}": "0x9"}),
    Case(
        "NoActiveController",
        5,
        {f"{_CONTROLLER}{{{A}}}": "0x9", f"{_CONTROLLER}{{{B}}}": "1x9"},
        [("job=pylogbroker-a", "0 brokers of pylogbroker-a are controllers, instead of one")],
    ),
    Case(
        "NoActiveController",
        5,
        {f"{_CONTROLLER}{{{A}}}": "1x9", f'{_CONTROLLER}{{job="pylogbroker-a",instance="h:2"}}': "1x9"},
        [("job=pylogbroker-a", "2 brokers of pylogbroker-a are controllers, instead of one")],
    ),
    Case(
        "MetadataNotRead",
        3,
        {f"{_METADATA_LAG}{{{A}}}": "40000x9"},
        [(HERE, "h:1 does not get the metadata of KRaft's controllers")],
    ),
    Case("MetadataNotRead", 3, {f"{_METADATA_LAG}{{{A}}}": "400x9"}),
    Case(
        "OfflinePartitions",
        1,
        {f"kafka_controller_kafkacontroller_offlinepartitionscount{{{A}}}": "3x9"},
        [("job=pylogbroker-a", "3 partitions of pylogbroker-a have no leader")],
    ),
    Case(
        "UncleanElection",
        5,
        {f"kafka_controller_controllerstats_uncleanleaderelections_total{{{A}}}": "0 0 2x9"},
        [(HERE, "2 leaders were elected that were not in sync: records may be lost")],
    ),
    Case("UncleanElection", 5, {f"kafka_controller_controllerstats_uncleanleaderelections_total{{{A}}}": "2x9"}),
    Case(
        "OfflineLogDirectory",
        1,
        {f"kafka_log_logmanager_offlinelogdirectorycount{{{A}}}": "1x9"},
        [(HERE, "1 log directories of h:1 are offline")],
    ),
    Case(
        "UnderMinIsr",
        1,
        {f"kafka_server_replicamanager_underminisrpartitioncount{{{A}}}": "4x9"},
        [(HERE, "4 partitions of h:1 reject acks=all")],
    ),
    Case("UnderReplicated", 4, {f"kafka_server_replicamanager_underreplicatedpartitions{{{A}}}": "7x9"}),
    Case(
        "UnderReplicated",
        6,
        {f"kafka_server_replicamanager_underreplicatedpartitions{{{A}}}": "7x9"},
        [(HERE, "7 partitions of h:1 have replicas out of sync")],
    ),
    Case(
        "CorruptRecords",
        5,
        {f"kafka_server_brokertopicmetrics_invalidmessagecrcrecords_total{{{A}}}": "0 0 1x9"},
        [(HERE, "A producer sends damaged records to h:1")],
    ),
    Case(
        "AppendsFail",
        12,
        {f'{_FAILED}{{topic="t",{A}}}': "0+5x20", f"{_FAILED}{{{A}}}": "0+5x20"},
        [("job=pylogbroker-a topic=t", "Producers get errors for t")],
    ),
    Case(
        "BrokerBusy",
        15,
        {f"kafka_network_socketserver_networkprocessoravgidle_percent{{{A}}}": "0.1x20"},
        [(HERE, "The broker h:1 is at the limit of its core")],
    ),
    Case(
        "ProduceSlow",
        20,
        {
            f'{_PRODUCE}{{request="Produce",le="{le}",{A}}}': f"0+{count}x20"
            for le, count in (("1", 0), ("2", 9), ("+Inf", 9))
        },
        [("job=pylogbroker-a", "One append in a hundred takes more than 1.99 s")],
    ),
    Case(
        "OpenFiles",
        8,
        {f"process_open_fds{{{A}}}": "900x9", f"process_max_fds{{{A}}}": "1000x9"},
        [(HERE, "The broker h:1 runs out of file descriptors")],
    ),
    Case(
        "AuthenticationsFail",
        12,
        {f'{_LOGIN}{{listener="SASL",networkProcessor="0",{A}}}': "0+120x20"},
        [("job=pylogbroker-a listener=SASL", "Clients fail to authenticate on SASL")],
    ),
    Case(
        "GroupWithoutMembers",
        20,
        {f"{_LAG}{{{_GROUP}}}": "5x30", f'kafka_consumergroup_members{{consumergroup="g",{A}}}': "0x30"},
        [("job=pylogbroker-a consumergroup=g", "Nobody reads what g has left")],
    ),
    Case(
        "GroupWithoutMembers",
        20,
        {f"{_LAG}{{{_GROUP}}}": "5x30", f'kafka_consumergroup_members{{consumergroup="g",{A}}}': "1x30"},
    ),
    Case(
        "LagGrows",
        60,
        {f"{_LAG}{{{_GROUP}}}": "0+100x70"},
        [("job=pylogbroker-a consumergroup=g topic=t", "g falls behind in t: 1500 records in half an hour")],
    ),
    Case("LagGrows", 60, {f"{_LAG}{{{_GROUP}}}": "0+1x70"}),  # a slow growth of a few records
    # a batch job, which catches up every 20 minutes
    Case("LagGrows", 115, {f"{_LAG}{{{_GROUP}}}": " ".join(["0+1000x19"] * 6)}),
    Case("LagGrows", 70, {f"{_LAG}{{{_GROUP}}}": "90000-1000x80"}),  # catches up
]


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_valid() -> None:
    assert f"SUCCESS: {len(alerts())} rules found" in promtool("check", "rules", RULES)


def test_each_alert_has_a_case_in_which_it_fires() -> None:
    assert {case.alert for case in CASES if case.fires} == {rule["alert"] for rule in alerts()}


def test_alerts_fire_and_do_not(tmp_path: Path) -> None:
    tests = tmp_path / "alerts.test.yml"
    content = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [case.as_yaml() for case in CASES],
    }
    tests.write_text(yaml.safe_dump(content))
    assert "SUCCESS" in promtool("test", "rules", tests)
