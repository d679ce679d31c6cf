"""Lags of groups and settings on pages of topics, brokers and access: shown to those who may see them."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, urlencode

from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.web.group_lags import INTERVAL_SECONDS
from pylogbroker.web.pages import PAGES
from pylogbroker.web.router.routes import HTML, JSON
from pylogbroker.web.views import ROUTES
from tests.broker.nodes import NODE_ID
from tests.broker.transactions import TransactionTests
from tests.web.test_changes import ChangeTests
from tests.web.test_pages import PageTests
from tests.web.test_transaction_views import TransactionViewTests
from tests.web.test_views import NOW
from tests.web.test_visitors import AnonymousTests

OTHER = NODE_ID + 1


class HiddenTests(AnonymousTests, PageTests):
    settings = {**AnonymousTests.settings, "super.users": "User:admin"}

    def text(self, path: str) -> str:
        return " ".join(self.show(path).text.split())

    def names(self, query: str) -> list[str]:
        links = self.show(f"/topics?{query}").links
        return [link.split("/")[2] for link in links if link.startswith("/topics/")]


class TestLags(HiddenTests):
    def setUp(self) -> None:
        super().setUp()
        for topic, records in (("clicks", 30), ("orders", 7), ("closed", 1000)):
            self.node.create(topic)
            self.node.produce(topic, 0, *[NOW] * records)
        self.commit("secret", "clicks", 0)
        self.commit("seen", "orders", 0)
        self.commit("seen", "closed", 0)
        self.source.start(self.node.broker)
        self.addCleanup(self.source.stop)
        for _ in range(4):
            self.node.clock.advance(INTERVAL_SECONDS)
        for topic in ("clicks", "orders"):
            self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
        self.allow(AclOperation.DESCRIBE, AclResourceType.GROUP, "seen")

    def test_topics_count_permitted_groups_alone(self) -> None:
        cells = [row[6:8] for row in self.show("/topics").rows]
        self.assertEqual((self.names(""), cells), (["clicks", "orders"], [["0", ""], ["1", "7"]]))
        self.assertEqual(self.names("sort=-lag"), ["orders", "clicks"])
        self.assertEqual(self.names("with_lag=true"), ["orders"])
        self.assertEqual(self.names("without_group=true"), ["clicks"])
        for topic, groups in (("clicks", 0), ("orders", 1)):
            self.assertIn(f"Groups {groups} ", self.text(f"/topics/{topic}/records"))
        self.allow(AclOperation.DESCRIBE, AclResourceType.GROUP, "secret")
        self.assertEqual(self.names("sort=-lag"), ["clicks", "orders"])

    def test_samples_of_a_group_need_all_of_its_topics(self) -> None:
        page = self.show("/topics/orders/groups")
        self.assertEqual((page.rows[0][3], page.rows[0][6].strip()), ("7", "not known yet"))
        self.assertNotIn("polyline", page.tags)
        overview = self.show("/")
        self.assertNotIn("1,007", overview.text)
        self.assertIn("not known yet", overview.rows[-1][3])
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "closed")
        page = self.show("/topics/orders/groups")
        self.assertEqual(page.rows[0][6].strip(), "steady")
        self.assertIn("polyline", page.tags)
        self.assertIn("1,007", self.show("/").text)

    def test_the_right_to_describe_the_cluster_shows_only_ids_of_groups(self) -> None:
        self.allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.allow(AclOperation.DELETE, AclResourceType.TOPIC, "clicks")
        [secret] = [row for row in self.show("/groups").rows if row[0].startswith("secret")]
        self.assertEqual(secret[3:6], ["not known"] * 3)
        self.assertEqual(secret[8].strip(), "not shown")
        self.assertEqual(self.ask("groups?search=secret")["groups"][0]["lag"], None)
        self.assertEqual(self.show("/topics/clicks/groups").rows, [])
        self.assertIn("No group that you may see reads it.", self.text("/topics/clicks/delete"))


class TestSettings(HiddenTests):
    def test_settings_of_topics(self) -> None:
        self.node.create("orders", retention_ms="172800000", cleanup_policy="compact,delete", min_insync_replicas="2")
        self.node.create("clicks", retention_ms="1000")
        self.node.change_partition("orders", 0, replicas=(NODE_ID, OTHER), isr=(NODE_ID,))
        for topic in ("clicks", "orders"):
            self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
        self.assertEqual(self.show("/topics").rows[1][8].strip(), "not shown")
        self.assertEqual(self.names("sort=kept"), ["clicks", "orders"])
        text = self.text("/topics/orders/partitions")
        self.assertIn("Keptnot shown", text)
        self.assertIn("Partition 0 has replicas that are not in sync.", text)
        for secret in ("2 d", "compacted", "min.insync.replicas", "needed"):
            self.assertNotIn(secret, text)
        self.allow(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, "orders")
        self.assertEqual(self.show("/topics").rows[1][8].strip(), "2 d, compacted")
        text = self.text("/topics/orders/partitions")
        self.assertIn("Kept2 d, compacted", text)
        self.assertIn("min.insync.replicas, which is 2.", text)
        self.assertIn("1 in sync, 2 needed", text)

    def test_settings_of_the_broker(self) -> None:
        self.allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.allow(AclOperation.READ, AclResourceType.TOPIC, "*")
        secrets = (("/create-topic", "delete, the default"), ("/access/acls", "Super users may do everything"))
        for path, secret in secrets:
            self.assertNotIn(secret, self.text(path))
        self.allow(AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER, CLUSTER_NAME)
        for path, secret in secrets:
            self.assertIn(secret, self.text(path))

    def test_replicas_of_hidden_topics(self) -> None:
        for topic in ("closed", "orders"):
            self.node.create(topic)
            self.node.change_partition(topic, 0, replicas=(NODE_ID, OTHER), isr=(OTHER,), leader=OTHER)
        self.allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.assertIn("2 replicas are not in sync, of topics that you may not see", self.text(f"/brokers/{NODE_ID}"))
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "orders")
        text = self.text(f"/brokers/{NODE_ID}")
        self.assertIn("1 of 2 are shown.", text)
        self.assertNotIn("closed", text)


class TestSuperUsers(HiddenTests, ChangeTests):
    settings = {**HiddenTests.settings, "super.users": "User:root"}

    def test_super_users_are_a_setting(self) -> None:
        self.allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.allow(AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME)
        fields = {"principal": "User:root", "permission": "allow", "operation": "read", "resource": "topic"}
        self.assertEqual(self.submit("access/acls/add", name="orders", **fields).code, 303)
        self.assertNotIn("super user", self.text("/access/users"))
        self.allow(AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.assertIn("super user", self.text("/access/users"))


class TestEveryPage(HiddenTests, TransactionViewTests):
    """Names that a visitor may not describe are on no page, and in no answer of the API."""

    settings = {**HiddenTests.settings, **TransactionTests.settings, "super.users": "User:secret-root"}

    def setUp(self) -> None:
        super().setUp()
        for kind in (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID):
            self.allow(AclOperation.ALL, kind, "*")
        self.allow(AclOperation.ALL, AclResourceType.CLUSTER, CLUSTER_NAME)
        for topic in ("open", "secret-topic"):
            self.node.create(topic, retention_ms="123456789")
            self.commit("seen", topic, 0)
            self.commit("secret-group", topic, 0)
        self.begun(b"secret-record", transactional_id="secret-id")
        self.submit("access/quotas/set", user="secret-user", producer_byte_rate="1")
        self.source.start(self.node.broker)
        self.addCleanup(self.source.stop)
        self.deny_all()
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "open")
        self.allow(AclOperation.DESCRIBE, AclResourceType.GROUP, "seen")

    def addresses(self) -> Iterator[str]:
        """Return an address of each page and view, with the open topic or the group that is seen."""
        texts = {"topic": "open", "name": "open", "broker": str(NODE_ID), "to": "latest", "path": self.directories[0]}
        for route in (*PAGES, *ROUTES):
            if route.method == "GET" and route.media in (HTML, JSON):
                fields = {**texts, "id": "seen" if "groups" in route.path else "p"}
                path, query = route.path, dict[str, str]()
                for name, parameter in route.parameters.by_name.items():
                    text = quote(fields.get(name, "1"), safe="")
                    if name in route.placeholders:
                        path = path.replace(f"{{{name}}}", text)
                    elif parameter.is_required:
                        query[name] = text
                yield f"{path}?{urlencode(query, safe='%')}"

    def test_no_name_is_shown_without_the_right_to_describe_it(self) -> None:
        codes = []
        for address in self.addresses():
            answer = self.connect().get(address)
            codes.append(answer.code)
            self.assertNotIn("secret", answer.body, address)
            self.assertNotIn("123456789", answer.body, address)
            self.assertNotIn("1 d 10 h", answer.body, address)
        self.assertGreater(codes.count(200), 20)
        self.assertGreater(codes.count(403), 10)
