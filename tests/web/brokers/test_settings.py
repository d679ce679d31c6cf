"""Page of a broker's settings, and the form that changes a dynamic one."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.broker.nodes import NODE_ID
from tests.web.test_changes import ChangeTests
from tests.web.test_pages import PageTests, Parsed
from tests.web.test_site import Answer
from tests.web.test_visitors import AnonymousTests

PATH = f"brokers/{NODE_ID}/settings"


class SettingsTests(PageTests, ChangeTests):
    settings = {**PageTests.settings, "log.retention.ms": "86400000"}

    def row(self, name: str) -> list[str]:
        page = self.show(f"/{PATH}?search={name}")
        [row] = [row for row in page.rows if row[0].startswith(name)]
        return [" ".join(cell.split()) for cell in row[1:]]

    def save(self, edit: str, value: str = "", **more: str) -> Answer:
        return self.submit(PATH, edit=edit, value=value, **more)


class TestSettings(SettingsTests):
    def test_value_default_and_source(self) -> None:
        self.assertEqual(self.row("log.retention.ms")[:3], ["1 d 86400000", "7 d", "file"])
        self.assertEqual(self.row("log.segment.bytes"), ["1 GiB 1073741824", "1 GiB", "built in", "Edit"])
        self.assertEqual(self.row("listeners")[-1], "at start")
        self.assertIn("No setting fits", self.show(f"/{PATH}?search=no.such").text)
        own = self.show(f"/{PATH}?changed=true").rows
        self.assertIn("log.retention.ms", [row[0].split("\n")[0][:16] for row in own])
        self.assertLess(len(own), len(self.show(f"/{PATH}").rows))

    def test_a_dynamic_setting_is_set_with_a_unit_and_restored(self) -> None:
        page = Parsed(self.connect().get(f"/{PATH}?edit=log.segment.bytes").body)
        self.assertIn(f"/{PATH}", page.actions)
        answer = self.save("log.segment.bytes", "512MB")
        location = f"/{PATH}?changed=true#log.segment.bytes"
        self.assertEqual((answer.code, answer.headers["location"]), (303, location))
        self.assertEqual(self.row("log.segment.bytes")[:3], ["512 MiB 536870912", "1 GiB", "this broker"])
        self.assertEqual(self.node.broker.config.log_segment_bytes, 536870912)
        self.save("log.segment.bytes", "256MB", scope="all brokers")
        self.save("log.segment.bytes", restore="true")
        self.assertEqual(self.row("log.segment.bytes")[:3], ["256 MiB 268435456", "1 GiB", "all brokers"])
        self.save("log.segment.bytes", restore="true", scope="all brokers")
        self.assertEqual(self.row("log.segment.bytes")[2], "built in")

    def test_wrong_values_are_named_at_the_field(self) -> None:
        for name, value in (
            ("log.segment.bytes", "big"),
            ("log.segment.bytes", "-1"),
            ("log.retention.ms", "soon"),
            ("log.cleanup.policy", "shred"),
            ("listeners", "PLAINTEXT://:1"),
        ):
            answer = self.save(name, value)
            self.assertEqual(answer.code, 400, name)
            self.assertIn(value if name != "listeners" else "Nothing was changed.", answer.body)
            if name != "listeners":
                self.assertIn('aria-invalid="true"', answer.body)
        answer = self.save("no.such.setting", "1")
        self.assertEqual(answer.code, 400)
        self.assertIn("no.such.setting", Parsed(answer.body).text)
        self.assertIn("did you mean log.retention.ms?</", self.save("log.retention.mss", "1").body)
        self.assertEqual(self.save("log.segment.bytes", "1", scope="the world").code, 400)
        self.assertEqual(self.row("log.segment.bytes")[2], "built in")

    def test_a_source_that_is_new_here(self) -> None:
        rows = [DescribeConfigsResourceResult("new.setting", "1", False, config_source=77)]
        answer = DescribeConfigsResponse(results=[DescribeConfigsResult(resource_name=str(NODE_ID), configs=rows)])
        ask = Visitor.ask

        async def answered(visitor: Visitor, request: Any, *arguments: Any) -> Any:
            return answer if isinstance(request, DescribeConfigsRequest) else await ask(visitor, request, *arguments)

        with patch.object(Visitor, "ask", answered):
            self.assertEqual(self.row("new.setting")[2], "not known")

    def test_a_broker_that_is_not_there(self) -> None:
        other = NODE_ID + 1
        self.assertEqual(self.submit(f"brokers/{other}/settings", edit="log.segment.bytes", value="1MB").code, 404)
        self.show(f"/brokers/{other}/settings", 404)
        self.node.create("clicks")
        self.node.change_partition("clicks", 0, replicas=(NODE_ID, other), isr=(other,), leader=other)
        self.assertIn(f"there is no broker {other} now", self.show(f"/brokers/{other}/settings", 503).text)
        self.show(f"/brokers/{other}")
        for part in ("records", "partitions", "groups", "producers"):
            self.assertIn(self.connect().get(f"/topics/clicks/{part}").code, (200, 503), part)


class TestRights(AnonymousTests, SettingsTests):
    settings = AnonymousTests.settings

    def test_settings_need_rights_on_the_cluster(self) -> None:
        self.allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.show(f"/{PATH}", 403)
        self.allow(AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.show(f"/{PATH}")
        answer = self.save("log.segment.bytes", "512MB")
        self.assertEqual(answer.code, 403)
        self.assertIn("Nothing was changed.", answer.body)
