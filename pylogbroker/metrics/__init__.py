"""Metrics of a broker, for Prometheus: read at scrape from the integers that the broker's parts keep.

    families      the table of all metrics: name, type, labels, meaning
    exposition    their text
    topics, replicas, network, coordinators    what each reads
    collector     joins these, in slices, with the process and its Python by prometheus-client

The names are those that dashboards know. The JMX exporter makes the broker's of Kafka's own, by its sample rules.
kafka_exporter has those of offsets and groups.
"""
