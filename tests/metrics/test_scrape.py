"""A scrape of a broker after a workload: what its text says, compared with what independent clients see."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from pylogbroker.broker.partitions.conversion_costs import ConversionCosts
from pylogbroker.long_loops import at_once
from pylogbroker.metrics.conversions import ConversionMetrics
from pylogbroker.metrics.disk import collect_disk
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.metrics.families import FAMILIES
from pylogbroker.tap.service import BrokerService
from tests.metrics.samples import sample_name
from tests.support.reactor_run import run
from tests.tap.embedding_programs import settings

TOPIC = "clicks"
COMMITTED = {0: 3, 1: 0}
PRODUCED = {0: 10, 1: 5}
Samples = Mapping[str, Mapping[frozenset[tuple[str, str]], float]]


def parsed(text: str) -> Samples:
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = frozenset(sample.labels.items())
            assert key not in found.setdefault(sample.name, {}), sample
            found[sample.name][key] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name][frozenset(labels.items())]


def work(bootstrap: str) -> Any:
    """Produce, consume and commit with librdkafka; return what it knows of the group."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, count in PRODUCED.items():
        for number in range(count):
            producer.produce(TOPIC, f"{number}".encode(), partition=partition)
    assert producer.flush(120) == 0
    settings = {"group.id": 'a "group"', "auto.offset.reset": "earliest", "fetch.wait.max.ms": 10}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    assert len(consumer.consume(PRODUCED[0], 120)) == PRODUCED[0]
    consumer.pause(consumer.assignment())  # a scrape has slices: fetches between these would be in some families only
    offsets = [TopicPartition(TOPIC, partition, offset) for partition, offset in COMMITTED.items()]
    consumer.commit(offsets=offsets, asynchronous=False)
    return consumer


def lags(consumer: Consumer) -> dict[str, int]:
    committed = consumer.committed([TopicPartition(TOPIC, partition) for partition in PRODUCED], 120)
    ends = {each.partition: consumer.get_watermark_offsets(each, 120)[1] for each in committed}
    return {str(each.partition): ends[each.partition] - each.offset for each in committed}


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Samples, dict[str, int], Samples]:
    """The samples after the workload, the lags by partition, and the samples without those of partitions."""
    path: Path = tmp_path_factory.mktemp("data")
    service = BrokerService(reactor, settings(path, http_listeners="http://:0", num_partitions="2"))

    def ask(bootstrap: str, url: str) -> tuple[str, dict[str, int]]:
        consumer = work(bootstrap)
        try:
            known = lags(consumer)
            with urlopen(url, timeout=120) as answer:
                assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
                return answer.read().decode(), known
        finally:
            consumer.close()

    def ask_again(url: str) -> str:
        with urlopen(url, timeout=120) as answer:
            text: str = answer.read().decode()
            return text

    async def served() -> tuple[str, dict[str, int], str]:
        service.startService()
        (listener,) = await service.listening
        (address,) = service.http_addresses
        url = f"http://{address.host}:{address.port}/metrics"
        text, known = await deferToThread(ask, f"127.0.0.1:{listener.port}", url)
        await service.reload(
            settings(path, http_listeners="http://:0", num_partitions="2", metrics_partitions_enable="false")
        )
        without = await deferToThread(ask_again, url)
        await service.stopService()
        return text, known, without

    text, known, without = run(served)
    return parsed(text), known, parsed(without)


Scraped = tuple[Samples, dict[str, int], Samples]


_OF_KRAFT = (
    "kafka_server_brokermetadatametrics_",
    "kafka_server_metadataloader_",
    "kafka_server_raftmetrics_",
    "pylogbroker_kraft_",
)


def test_metric_families_are_complete(scraped: Scraped) -> None:
    """Others appear with an error, quota, share group, dead letter, follower, with TLS, SASL, KRaft or an archive."""
    samples, _, _ = scraped
    missing = [
        family.name
        for family in FAMILIES
        if sample_name(family) not in samples and "_remote" not in family.name and not family.name.startswith(_OF_KRAFT)
    ]
    assert missing == [
        "kafka_network_requestmetrics_errors_total",
        "pylogbroker_handshakes_total",
        "kafka_server_quota_byte_rate",
        "kafka_server_quota_request_time",
        "kafka_server_quota_throttle_time",
        "kafka_server_sharepartitionmetrics_inflightmessagecount",
        "pylogbroker_sharegroup_inflight_records",
        "kafka_server_sharegroupmetrics_deadletterqueuerecordcount_total",
        "kafka_server_sharegroupmetrics_deadletterqueuetotalproducerequests_total",
        "kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests_total",
        "pylogbroker_http_followers",
        "pylogbroker_http_followers_behind",
        "pylogbroker_http_followers_lag_max",
    ]
    for family in FAMILIES:
        for labels in samples.get(sample_name(family), {}):
            names = {name for name, _ in labels}
            assert names == set(family.labels) or not names, family.name


def test_traffic_of_a_topic_and_of_all(scraped: Scraped) -> None:
    samples, _, _ = scraped
    prefix = "kafka_server_brokertopicmetrics_"
    assert value(samples, f"{prefix}messagesin_total", topic=TOPIC) == sum(PRODUCED.values())
    for name in ("messagesin_total", "bytesin_total", "bytesout_total", "totalproducerequests_total"):
        by_topic = samples[f"{prefix}{name}"]
        assert by_topic[frozenset()] == sum(count for labels, count in by_topic.items() if labels)
        assert value(samples, f"{prefix}{name}", topic=TOPIC) > 0


def test_offsets_and_lag_match_a_clients(scraped: Scraped) -> None:
    samples, known, _ = scraped
    assert known == {"0": 7, "1": 5}
    group = 'a "group"'
    for partition, lag in known.items():
        labels = {"consumergroup": group, "topic": TOPIC, "partition": partition}
        assert value(samples, "kafka_consumergroup_lag", **labels) == lag
        assert value(samples, "kafka_consumergroup_current_offset", **labels) == COMMITTED[int(partition)]
        end = value(samples, "kafka_topic_partition_current_offset", topic=TOPIC, partition=partition)
        assert end == PRODUCED[int(partition)]
    assert value(samples, "kafka_consumergroup_lag_sum", consumergroup=group, topic=TOPIC) == sum(known.values())
    assert value(samples, "pylogbroker_consumergroup_lag_seconds", consumergroup=group, topic=TOPIC) >= 0
    assert value(samples, "kafka_coordinator_group_groupmetadatamanager_numgroups") == 1
    assert value(samples, "kafka_coordinator_group_groupmetadatamanager_numgroupsempty") == 1


def test_metrics_of_alerts_have_values(scraped: Scraped) -> None:
    samples, _, _ = scraped
    assert value(samples, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    for name in (
        "kafka_server_replicamanager_underreplicatedpartitions",
        "kafka_server_replicamanager_underminisrpartitioncount",
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "kafka_log_logmanager_offlinelogdirectorycount",
    ):
        assert value(samples, name) == 0
    assert value(samples, "kafka_server_replicamanager_partitioncount") >= 2
    assert 0 <= value(samples, "kafka_network_socketserver_networkprocessoravgidle_percent") <= 1


def test_clients_and_requests(scraped: Scraped) -> None:
    samples, _, _ = scraped
    software = samples["kafka_server_socket_server_metrics_connections_software"]
    assert any(("clientSoftwareName", "confluent-kafka-python") in labels for labels in software) or any(
        ("clientSoftwareName", "librdkafka") in labels for labels in software
    )
    requests = samples["kafka_network_requestmetrics_requests_total"]
    assert {"Produce", "Fetch", "OffsetCommit"} <= {dict(labels)["request"] for labels in requests}
    assert "process_cpu_seconds_total" in samples
    assert "python_gc_collections_total" in samples


def test_how_long_requests_took(scraped: Scraped) -> None:
    samples, _, _ = scraped
    prefix, counted = "kafka_network_requestmetrics_", samples["kafka_network_requestmetrics_requests_total"]
    for request in ("Produce", "Fetch", "OffsetCommit"):
        expected = sum(count for labels, count in counted.items() if ("request", request) in labels)
        for name in (f"{prefix}totaltimems_count", f"{prefix}localtimems_count", "pylogbroker_request_seconds_count"):
            assert 0 <= expected - value(samples, name, request=request) <= 1  # one fetch may wait
        assert value(samples, "pylogbroker_request_seconds_bucket", request=request, le="+Inf") >= expected - 1
        kinds = ("total", "local", "requestqueue", "remote")
        total, *parts = (value(samples, f"{prefix}{kind}timems_sum", request=request) for kind in kinds)
        assert 0 < parts[0] <= total
        assert sum(parts) >= total * 0.999  # a request that waits has only its first parts yet
    fetches = [value(samples, f"{prefix}totaltimems_count", request=f"Fetch{kind}") for kind in ("", "Consumer")]
    assert fetches[0] == fetches[1]
    middle, high = (value(samples, f"{prefix}totaltimems", request="Produce", quantile=q) for q in ("0.5", "0.99"))
    assert 0 < middle <= high


def test_costs_of_conversions() -> None:
    costs, metrics, out = ConversionCosts(), ConversionMetrics(), Exposition()
    costs.produce.add(3000, 2_000_000)
    costs.produce.add(3000, 2_000_000)
    metrics.collect(out, costs)
    found = parsed(b"".join(at_once(out.encode())).decode())
    prefix = "kafka_network_requestmetrics_"
    for name, total, low, high in (("messageconversionstimems", 4, 1, 2.1), ("temporarymemorybytes", 6000, 2048, 4096)):
        assert value(found, f"{prefix}{name}_count", request="Produce") == 2
        assert value(found, f"{prefix}{name}_sum", request="Produce") == total
        assert low < value(found, f"{prefix}{name}", request="Produce", quantile="0.5") < high
        assert value(found, f"{prefix}{name}_count", request="Fetch") == 0
        assert isnan(value(found, f"{prefix}{name}", request="Fetch", quantile="0.5"))


def test_disk_bytes_are_read_from_the_process_counts(tmp_path: Path) -> None:
    counts, out = tmp_path / "io", Exposition()
    collect_disk(out, counts)  # another system
    assert not at_once(out.encode())
    counts.write_text("rchar: 7\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 3\n")
    collect_disk(out, counts)
    prefix = "kafka_server_kafkaserver_linux_disk_"
    found = parsed(b"".join(at_once(out.encode())).decode())
    assert [value(found, f"{prefix}{name}_bytes") for name in ("read", "write")] == [4096, 8192]


def test_partitions_may_be_left_out(scraped: Scraped) -> None:
    samples, _, without = scraped
    per_partition = {family.name for family in FAMILIES if family.of_partitions}
    assert per_partition <= set(samples)
    assert not per_partition & set(without)
    left_out = {"kafka_consumergroup_lag", "kafka_consumergroup_current_offset"}
    gone = {name for name in samples if name.startswith("kafka_")} - set(without)
    assert gone - {"kafka_server_socket_server_metrics_connections_software"} == per_partition | left_out
    assert not any(("partition", "0") in labels for found in without.values() for labels in found)
