"""Metrics of share groups after fetches, acknowledgements, expired locks and dead letters."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from pylogbroker.broker.share import counts
from pylogbroker.broker.share.counts import ShareCounts
from pylogbroker.groups.share.values import Acknowledgement
from pylogbroker.long_loops import at_once
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.metrics.share_groups import collect_share_groups
from tests.broker.share_members import ACCEPT, REJECT, RELEASE
from tests.broker.test_share_fetch import ShareTests


class ShareMetricTests(ShareTests):
    def samples(self, *, has_partitions: bool = True) -> dict[str, dict[str, float]]:
        """Return values by the name of their metric, and their labels' values."""
        out = Exposition()
        at_once(collect_share_groups(out, self.node.broker, has_partitions=has_partitions))
        text = b"".join(at_once(out.encode())).decode()
        found: dict[str, dict[str, float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, {})[" ".join(sample.labels.values())] = sample.value
        return found

    def test_counts_of_a_group(self) -> None:
        self.node.create("dlq.t", errors_deadletterqueue_group_enable="true")
        self.set_group(**self.earliest, **{"errors.deadletterqueue.topic.name": "dlq.t"})
        self.produce(10)
        member = self.member()
        member.fetch(self.p0)
        self.assertEqual(member.acknowledge(self.p0, (0, 3, ACCEPT), (4, 5, RELEASE), (6, 6, REJECT)), 0)
        self.node.clock.advance(0)
        samples = self.samples()
        self.assertEqual(samples["kafka_server_sharesessioncache_sharesessionscount"], {"": 1})
        self.assertEqual(samples["kafka_server_sharesessioncache_sharepartitionscount"], {"": 1})
        self.assertEqual(
            samples["kafka_server_sharegroupmetrics_recordacknowledgements_total"],
            {"accept": 4, "release": 2, "reject": 1, "renew": 0},
        )
        self.assertEqual(samples["kafka_server_sharepartitionmetrics_inflightmessagecount"], {"g t 0": 3})
        self.assertEqual(samples["pylogbroker_sharegroup_inflight_records"], {"g": 3})
        self.assertEqual(samples["kafka_server_sharegroupmetrics_deadletterqueuerecordcount_total"], {"g": 1})
        self.assertEqual(samples["kafka_server_sharegroupmetrics_deadletterqueuetotalproducerequests_total"], {"g": 1})
        self.assertEqual(samples["kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests_total"], {"g": 0})
        self.assertGreaterEqual(samples["kafka_server_share_coordinator_metrics_write_total"][""], 2)
        self.assertNotIn("kafka_server_sharepartitionmetrics_inflightmessagecount", self.samples(has_partitions=False))

    def test_expired_locks(self) -> None:
        self.set_group(**self.earliest)
        self.produce(3)
        self.member().fetch(self.p0)
        self.node.clock.advance(31)
        samples = self.samples()
        self.assertEqual(samples["kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total"], {"": 3})
        self.assertEqual(samples["pylogbroker_sharegroup_inflight_records"], {"g": 0})

    def test_failed_dead_letters(self) -> None:
        self.node.create("dlq.t", errors_deadletterqueue_group_enable="true", max_message_bytes="10")
        self.set_group(**self.earliest, **{"errors.deadletterqueue.topic.name": "dlq.t"})
        self.produce(1)
        member = self.member()
        member.fetch(self.p0)
        member.acknowledge(self.p0, (0, 0, REJECT))
        self.node.clock.advance(0)
        samples = self.samples()
        self.assertEqual(samples["kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests_total"], {"g": 1})
        self.assertEqual(samples["kafka_server_sharegroupmetrics_deadletterqueuerecordcount_total"], {"g": 0})

    def test_rejected_acknowledgements_are_not_counted(self) -> None:
        self.set_group(**self.earliest)
        self.produce(3)
        member = self.member()
        member.fetch(self.p0)
        self.assertNotEqual(member.acknowledge(self.p0, (0, 9, ACCEPT)), 0)
        acknowledged = self.samples()["kafka_server_sharegroupmetrics_recordacknowledgements_total"]
        self.assertEqual(acknowledged["accept"], 0)

    def test_groups_with_own_counts_are_bounded(self) -> None:
        self.patch(counts, "GROUPS_MAX", 2)
        counted = ShareCounts()
        for group_id in ("a", "b", "c", "d", "a"):
            counted.letters_of(group_id).stored += 1
        stored = {group_id: letters.stored for group_id, letters in counted.letters.items()}
        self.assertEqual(stored, {"a": 2, "b": 1, "": 2})

    def test_types_of_single_records_are_counted(self) -> None:
        counted = ShareCounts()
        counted.count_acknowledged([Acknowledgement(0, 2, [1, 2, 1]), Acknowledgement(5, 9, [3])])
        self.assertEqual(dict(counted.acknowledged), {1: 2, 2: 1, 3: 5})
