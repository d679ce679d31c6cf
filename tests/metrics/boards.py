"""Expressions that panels of dashboards send to Prometheus: this project's, strimzi's for Kafka, and kafka_exporter's.

Of the others there are facts alone: which metric a panel shows, and how it selects and sums. They were read in 2026 in
strimzi/strimzi-kafka-operator (packaging/examples/metrics/grafana-dashboards/strimzi-kafka.json),
danielqsj/kafka_exporter (kafka_exporter_overview.json, charts/kafka-exporter/templates/alertrules.yaml), which is board
7589 of Grafana, and confluentinc/jmx-monitoring-stacks (kafka-cluster.json).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

ROOT = Path(__file__).parents[2]
_CLUSTER = 'namespace="kafka",strimzi_io_cluster="events"'
_POD = 'kubernetes_pod_name=~"events-kafka-.*"'
_IN_POD = f'namespace="kafka",{_POD},container="kafka"'
_TOPIC = f'{_CLUSTER},topic=~".*",topic!="",{_POD}'
_OWN = f"{_CLUSTER},{_POD}"
_IDLE = ("kafka_network_socketserver_networkprocessor", "kafka_server_kafkarequesthandlerpool_requesthandler")
_USERS = 'topic!="__consumer_offsets"'
_CONFLUENT = 'job="kafka-broker",env="production"'

#: Series that the broker does not have, by the beginnings of their names, and why.
NOT_SERVED: Final[Mapping[str, str]] = {
    "jvm_": "there is no Java virtual machine",
    "container_": "Kubernetes measures its containers",
    "kubelet_": "Kubernetes measures its volumes",
}


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((ROOT / "etc" / "prometheus-alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def board() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "etc" / "grafana-dashboard.json").read_text())
    return found


def own_panels() -> Iterator[str]:
    """Yield the expressions of this project's dashboard, as Grafana sends them with all brokers and topics."""
    for panel in board()["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"].replace("$instance", ".*").replace("$topic", ".*")
            yield text.replace("$__rate_interval", "1m")


def own_alerts() -> Iterator[str]:
    """Yield what alerts compare. A comparison itself has no result while all is well."""
    for rule in alerts():
        for side in re.split(r"\s+and on \([^)]*\)\s+", rule["expr"]):
            text = re.sub(r" (==|!=|<|>) [\d.]+$", "", side.strip())
            yield re.sub(r"\s-\s.* offset 30m\)\)", "", text, flags=re.DOTALL)  # older than the test


def strimzi_panels() -> Iterator[str]:
    yield f"count(kafka_server_replicamanager_leadercount{{{_CLUSTER}}})"
    for name in (
        "kafka_controller_kafkacontroller_activecontrollercount",
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "kafka_server_replicamanager_partitioncount",
        "kafka_server_replicamanager_underreplicatedpartitions",
        "kafka_cluster_partition_atminisr",
        "kafka_cluster_partition_underminisr",
    ):
        yield f"sum({name}{{{_CLUSTER}}})"
    yield f"sum(irate(kafka_controller_controllerstats_uncleanleaderelections_total{{{_CLUSTER}}}[5m]))"
    for name in ("bytesin", "bytesout", "messagesin", "totalproducerequests", "failedproducerequests"):
        yield f"sum(irate(kafka_server_brokertopicmetrics_{name}_total{{{_TOPIC}}}[1m]))"
    for name in ("totalfetchrequests", "failedfetchrequests"):
        yield f"sum(irate(kafka_server_brokertopicmetrics_{name}_total{{{_TOPIC}}}[1m]))"
    for name in _IDLE:
        yield f"sum({name}avgidle_percent{{{_OWN}}}*100) by (kubernetes_pod_name)"
    for name in ("read", "write"):
        yield f"sum(irate(kafka_server_kafkaserver_linux_disk_{name}_bytes{{{_OWN}}}[1m])) by (kubernetes_pod_name)"
    yield f"sum(kafka_server_socket_server_metrics_connection_count{{{_OWN}}}) by (kubernetes_pod_name, listener)"
    yield f'kafka_log_log_size{{{_OWN},topic=~".*",partition=~".*"}}'
    yield f"sum(rate(process_cpu_seconds_total{{{_IN_POD}}}[5m])) by (kubernetes_pod_name)"
    yield f"sum(process_open_fds{{{_IN_POD}}}) by (kubernetes_pod_name)"
    yield 'sum(container_memory_working_set_bytes{namespace="kafka",container="kafka"}) by (pod)'
    yield 'sum(kubelet_volume_stats_available_bytes{namespace="kafka"}) by (persistentvolumeclaim)'
    for name in ("memory_bytes_used", "threads_current"):
        yield f'sum(jvm_{name}{{{_POD},strimzi_io_name="events-kafka"}}) by (kubernetes_pod_name)'
    for name in ("sum", "count"):
        yield f"sum(rate(jvm_gc_collection_seconds_{name}{{{_POD}}}[5m])) by (kubernetes_pod_name)"


def exporter_panels() -> Iterator[str]:
    yield f"sum(rate(kafka_topic_partition_current_offset{{{_USERS}}}[1m])) by (topic)"
    yield "sum(kafka_consumergroup_lag) by (consumergroup, topic)"
    yield f"sum by(topic) (kafka_topic_partitions{{{_USERS}}})"
    yield f"kafka_topic_partition_in_sync_replica{{{_USERS}}} - kafka_topic_partition_replicas{{{_USERS}}}"
    yield f"rate(kafka_topic_partition_leader{{{_USERS}}}[5m])"
    yield "kafka_brokers"


def confluent_panels() -> Iterator[str]:
    """Yield some panels that need the rules for Confluent's names."""
    yield f"sum(kafka_controller_controllerstats_uncleanleaderelectionspersec{{{_CONFLUENT}}})"
    yield f'sum(rate(kafka_network_requestmetrics_requestspersec{{{_CONFLUENT},request="Produce"}}[5m]))'
    yield f'rate(kafka_network_requestmetrics_errorspersec{{{_CONFLUENT},error!="NONE"}}[5m])'
    yield f'sum(rate(kafka_server_brokertopicmetrics_messagesinpersec{{{_CONFLUENT},topic!=""}}[5m])) by (topic)'
    yield f"sum(kafka_server_replicamanager_isrshrinkspersec{{{_CONFLUENT}}})"


def why_not_served(expression: str) -> str | None:
    """Return the reason why an expression has no result; None if it must have one."""
    for name in re.findall(r"\w+", expression):
        for start, reason in NOT_SERVED.items():
            if name.startswith(start):
                return reason
    return None
