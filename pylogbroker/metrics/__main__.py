"""Print the page of all metrics: python -m pylogbroker.metrics > docs/metrics.md."""

from __future__ import annotations

from collections.abc import Iterable

from pylogbroker.metrics.declarations import Family
from pylogbroker.metrics.families import FAMILIES

_HEAD = """# Metrics

With `http.listeners` set, `http://host:port/metrics` has these metrics for Prometheus. `docs/operating.md` says what
alerts to set, and what to do. `etc/grafana-dashboard.json` and `etc/prometheus-alerts.yml` are ready to use.

```yaml
scrape_configs:
  - job_name: pylogbroker
    static_configs:
      - targets: ["127.0.0.1:9464"]
```

The names are those of Kafka's metrics as the JMX exporter makes them by its sample rules, and those of kafka_exporter
for offsets and groups, so that dashboards for these work. A metric without samples is left out.

- The counts of traffic have a sample for each topic, and one without the label `topic` for all. Sum with `topic!=""`,
  or take the one without.
- Each broker serves what it leads, hosts or coordinates. Sums over all brokers count each partition and group once.
- Metrics marked *partition* have a sample for each partition: `metrics.partitions.enable=false` leaves them out, with
  the lag of groups by partition.
- A scrape takes about a millisecond of processor time, and 15 more for a thousand partitions. The broker serves others
  meanwhile.
- While a listener reads more than 100 times a second, the duration of one request in 31 is measured, and counts as 31.
  The exact number of requests is in `kafka_network_requestmetrics_requests_total`.
- How long a request took is counted in buckets, each twice as long as the one before it, so a quantile may be off by
  as much as a third. Quantiles cannot be added: for several brokers, use `histogram_quantile` on
  `pylogbroker_request_seconds_bucket`. `request="Fetch"` has both `FetchConsumer` and `FetchFollower`.
- The lag of a group is served by its coordinator, as kafka_exporter serves it: each group once, whichever brokers have
  the partitions. A scrape asks the leaders of partitions without a replica there, and waits at most two seconds. Values
  up to a minute old stand in for a leader that does not answer; then the lag is left out. With an authorizer, brokers
  need DESCRIBE on the topics, which super users have.

This page is made by `python -m pylogbroker.metrics > docs/metrics.md`.

## Dashboards of others

strimzi's dashboards select by labels that Kubernetes gives there: `namespace`, `strimzi_io_cluster`, `strimzi_io_name`,
`container` and the name of the pod. These rules set them for a cluster `events`, with the broker's port in the name of
the pod. kafka_exporter's need no rules.

```yaml
scrape_configs:
  - job_name: pylogbroker-events
    static_configs:
      - targets: ["127.0.0.1:9464"]
    relabel_configs:
      - {target_label: namespace, replacement: kafka}
      - {target_label: strimzi_io_cluster, replacement: events}
      - {target_label: strimzi_io_name, replacement: events-kafka}
      - {target_label: container, replacement: kafka}
      - source_labels: [__address__]
        regex: '.*:(\\d+)'
        target_label: kubernetes_pod_name
        replacement: events-kafka-$1
```

Confluent's dashboards know a count as `..persec`, not `.._total`, and select by `job="kafka-broker"` and `env`. A
second scrape with these rules has these names:

```yaml
scrape_configs:
  - job_name: kafka-broker
    static_configs:
      - targets: ["127.0.0.1:9464"]
        labels: {env: production}
    metric_relabel_configs:
      - source_labels: [__name__]
        regex: '(kafka_(?:server_brokertopic|server_replica|network_request|controller)\\w+)_total'
        target_label: __name__
        replacement: ${1}persec
```

## The metrics

| metric | type | labels | meaning |
|---|---|---|---|
"""

_TAIL = """
Besides these, there are `process_cpu_seconds_total`, `process_open_fds`, `process_resident_memory_bytes` and others of
the process, and `python_gc_*` and `python_info`, all from prometheus-client.

Not served, of what dashboards for Kafka ask for: everything of a Java virtual machine,
`kafka_network_requestmetrics_responsequeuetimems` and `..responsesendtimems` (the thread that makes an answer sends
it), `kafka_network_acceptor_acceptorblocked_percent`, and `yammer-metrics-count`.
"""


def as_markdown(families: Iterable[Family]) -> str:
    return _HEAD + "".join(map(_row, sorted(families, key=lambda family: family.name))) + _TAIL


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    kind = f"{family.kind}, *partition*" if family.of_partitions else family.kind
    return f"| `{family.name}` | {kind} | {labels} | {family.help} |\n"


if __name__ == "__main__":
    print(as_markdown(FAMILIES), end="")
