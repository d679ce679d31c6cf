"""Settings of a topic: own ones, units, what a change would do, and errors that stay at the field."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest

from pylogbroker.records import Record, build
from pylogbroker.web.topic_pages.setting_values import field_text, plain_value, raw_text, shown_value
from tests.web.test_changes import ChangeTests
from tests.web.test_pages import PageTests, Parsed
from tests.web.test_views import NOW

LONG_MAX = 2**63 - 1
DAY = 86_400_000


@pytest.mark.parametrize(
    ("name", "raw", "shown", "field"),
    [
        ("retention.ms", "604800000", "7 d", "7d"),
        ("retention.ms", "5400000", "1 h 30 min", "90m"),
        ("retention.ms", "1", "0.001 s", "1ms"),
        ("retention.ms", "0", "0 s", "0"),
        ("retention.ms", "-1", "no limit", "no limit"),
        ("retention.bytes", "-1", "no limit", "no limit"),
        ("segment.bytes", "1073741824", "1 GiB", "1GiB"),
        ("max.message.bytes", "1048588", "1 MiB", "1048588"),
        ("flush.ms", str(LONG_MAX), "no limit", "no limit"),
        ("flush.messages", str(LONG_MAX), "no limit", "no limit"),
        ("flush.messages", "12000", "12,000", "12000"),
        ("compression.gzip.level", "-1", "-1", "-1"),
        ("local.retention.ms", "-2", "-2", "-2"),
        ("cleanup.policy", "compact,delete", "compact,delete", "compact,delete"),
        ("follower.replication.throttled.replicas", "", "empty", ""),
    ],
)
def test_values_are_read_back_as_they_were(name: str, raw: str, shown: str, field: str) -> None:
    assert (shown_value(name, raw), field_text(name, raw)) == (shown, field)
    assert plain_value(name, field) == raw


def test_raw_values_are_those_of_the_broker() -> None:
    assert [raw_text(text) for text in ("-1", "999", "604800000", "lz4")] == ["-1", "999", "604,800,000", "lz4"]
    assert raw_text("9" * 5000) == "9" * 5000


def test_values_that_somebody_types() -> None:
    for name, typed, raw in (
        ("retention.ms", " 2 D ", "172800000"),
        ("retention.ms", "1w", "604800000"),
        ("retention.ms", "unlimited", "-1"),
        ("retention.ms", "soon", "soon"),
        ("segment.bytes", "64mb", "67108864"),
        ("segment.bytes", "1.5GiB", "1.5GiB"),
        ("min.insync.replicas", "2", "2"),
        ("min.insync.replicas", "7d", "7d"),
        ("no.such.setting", "no limit", "no limit"),
        ("retention.ms", "9" * 5000, "9" * 5000),
    ):
        assert plain_value(name, typed) == raw, typed


class SettingsTests(PageTests):
    path = "/topics/orders/settings"

    def setUp(self) -> None:
        super().setUp()
        self.node.create("orders", segment_bytes="250", retention_ms=str(7 * DAY))

    def text(self, query: str = "", code: int = 200) -> str:
        return " ".join(self.show(f"{self.path}?{query}", code).text.split())

    def names(self, query: str = "") -> list[str]:
        return re.findall(r'<tr id="([^"]+)"', self.connect().get(f"{self.path}?{query}").body)


class TestSettings(SettingsTests):
    def test_own_settings_are_marked_and_filtered(self) -> None:
        self.assertEqual(self.names("changed=1"), ["retention.ms", "segment.bytes"])
        self.assertEqual(self.names("search=insync"), ["min.insync.replicas"])
        self.assertIn("retention.bytes", self.names("search=OLDEST%20segments"))
        self.assertEqual(self.names("search=insync&changed=1&edit=retention.ms"), ["retention.ms"])
        self.assertIn("No setting fits", self.text("search=nothing"))
        row = self.connect().get(self.path).body.partition('<tr id="retention.ms"')[2].partition("</tr>")[0]
        self.assertTrue(row.startswith(' class="own"'))
        self.assertEqual(" ".join(Parsed(row.partition("</th>")[2]).text.split()), "7 d 604,800,000 7 dthis topic Edit")
        self.assertIn("2 of", self.text("changed=1"))

    def test_the_row_that_is_edited_is_a_field(self) -> None:
        body = self.connect().get(f"{self.path}?edit=retention.ms").body
        self.assertIn('name="value" value="7d"', body)
        self.assertEqual(body.count('name="value"'), 1)
        body = self.connect().get(f"{self.path}?edit=cleanup.policy").body
        self.assertIn("<option selected>delete</option><option>compact</option>", body)

    def test_unknown_settings(self) -> None:
        for name in ("edit", "saved"):
            self.assertIn("did you mean retention.ms?", self.text(f"{name}=retention.mss", 404))


class TestConsequences(SettingsTests):
    def after(self, name: str, value: str) -> str:
        body = self.connect().get(f"{self.path}?edit={name}&value={quote(value)}").body
        return " ".join(
            Parsed(body.partition('id="consequence" role="status">')[2].partition("</div>")[0]).text.split()
        )

    def append(self, *ages_ms: int) -> list[int]:
        """Append a record to a segment of its own for each age; return the sizes of the segments."""
        log = self.node.broker.partitions.find("orders", 0)
        for age_ms in ages_ms:
            log.append(build([Record(0, NOW - age_ms, None, b"v" * 150)]), NOW)
        return [segment.size for segment in log.log.segments]

    def test_retention_says_what_the_next_check_deletes(self) -> None:
        sizes = self.append(3 * DAY, 2 * DAY, DAY, 0)
        self.assertEqual(len(sizes), 4)
        self.assertIn(
            f"= 129,600,000 ms. Now 7 d. The next check deletes 2 segments with {sum(sizes[:2])} B on this broker.",
            self.after("retention.ms", "36h"),
        )
        self.assertIn("The next check deletes 1 segment with", self.after("retention.bytes", str(sum(sizes[1:]))))
        self.assertIn("The next check deletes nothing more", self.after("retention.ms", "10d"))
        self.assertIn("Nothing is deleted by age or size any more.", self.after("cleanup.policy", "compact"))
        self.assertIn("This is the value now.", self.after("retention.ms", "168h"))
        self.assertEqual(self.append()[0], sizes[0])

    def test_segments_that_go_anyway_do_not_count(self) -> None:
        sizes = self.append(9 * DAY, 3 * DAY, 0)
        self.assertIn(f"deletes 1 segment with {sizes[1]} B", self.after("retention.ms", "2d"))

    def test_a_longer_retention_keeps_more_at_the_rate_now(self) -> None:
        self.source.start(self.node.broker)
        self.addCleanup(self.source.stop)
        self.node.produce("orders", 0, NOW)
        self.node.clock.advance(20)
        self.node.broker.partitions.traffic.topics["orders"].bytes_in += 10_240
        self.node.clock.advance(5)
        rate = self.ask("topic?name=orders")["bytes_in_per_second"]
        more = f"{rate * 2 * 86_400 / 2**20:.1f} MiB"
        self.assertIn(f"About {more} more are kept after 2 d, at the rate now,", self.after("retention.ms", "9d"))
        self.assertIn("more a day, at the rate now", self.after("retention.ms", "no limit"))

    def test_replicas_that_are_needed_for_writes(self) -> None:
        self.assertIn("no write with acks=all would be accepted", self.after("min.insync.replicas", "2"))
        self.assertIn("records without a key are rejected", self.after("cleanup.policy", "compact").lower())
        self.assertIn("A new segment begins at 64.0 MiB.", self.after("segment.bytes", "64MiB"))
        self.assertIn("Batches above 10.0 KiB are rejected.", self.after("max.message.bytes", "10KiB"))

    def test_a_value_that_is_not_accepted(self) -> None:
        self.assertIn("'soon' is not accepted; expected a whole number", self.after("retention.ms", "soon"))
        self.assertIn("expected one of", self.after("compression.type", "zip"))


class TestSaving(ChangeTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("orders", retention_ms=str(7 * DAY))

    def save(self, **fields: str) -> Any:
        return self.submit("topics/orders/settings", **fields)

    def value(self, name: str) -> str | None:
        return self.node.broker.metadata.topic_settings("orders").get(name)

    def undo(self, address: str) -> dict[str, str]:
        """Return the fields of the form that undoes a change, to which the page after the change leads."""
        page = self.connect().get(address.partition("#")[0]).body
        [link] = re.findall(r'<a href="([^"]*)" title="To [^"]*">Undo', page)
        form = self.connect().get(unescape(link).partition("#")[0]).body.partition('<form class="edit"')[2]
        return dict(re.findall(r'name="(edit|value|restore)" value="([^"]*)"', form.partition("</form>")[0]))

    def test_a_change_says_what_is_so_now_and_can_be_undone(self) -> None:
        answer = self.save(edit="retention.ms", value="14d", changed="true")
        self.assertEqual(answer.code, 303)
        address = answer.headers["location"]
        expected = f"/topics/orders/settings?saved=retention.ms&was={7 * DAY}&changed=true#retention.ms"
        self.assertEqual((address, self.value("retention.ms")), (expected, str(14 * DAY)))
        self.assertIn("retention.ms of orders is 14 d now.", self.connect().get(address.partition("#")[0]).body)
        fields = self.undo(address)
        self.assertEqual(fields, {"edit": "retention.ms", "value": "7d", "restore": "true"})
        self.assertEqual(self.value("retention.ms"), str(14 * DAY))
        del fields["restore"]
        self.assertEqual(self.save(**fields).code, 303)
        self.assertEqual(self.value("retention.ms"), str(7 * DAY))

    def test_a_long_value_is_not_in_the_address(self) -> None:
        name, long = "follower.replication.throttled.replicas", ",".join(f"{index}:1" for index in range(300))
        self.assertEqual(self.save(edit=name, value=long).code, 303)
        address = self.save(edit=name, value="*").headers["location"]
        self.assertEqual(address, f"/topics/orders/settings?saved={name}#{name}")
        page = self.connect().get(address.partition("#")[0])
        self.assertEqual(page.code, 200)
        self.assertNotIn("Undo", page.body)

    def test_the_default_can_be_used_and_undone(self) -> None:
        address = self.save(edit="retention.ms", value="1d", restore="true").headers["location"]
        self.assertIsNone(self.value("retention.ms"))
        self.save(edit="retention.ms", value=self.undo(address)["value"])
        self.assertEqual(self.value("retention.ms"), str(7 * DAY))
        address = self.save(edit="segment.bytes", value="64MiB").headers["location"]
        self.assertEqual(self.value("segment.bytes"), "67108864")
        self.assertIn("was_default=true", address)
        self.save(**self.undo(address))
        self.assertIsNone(self.value("segment.bytes"))

    def test_a_preview_changes_nothing(self) -> None:
        answer = self.save(edit="retention.ms", value="2d", preview="true")
        self.assertEqual(answer.code, 200)
        self.assertIn("The next check deletes nothing more", answer.body)
        self.assertIn('name="value" value="2d"', answer.body)
        self.assertEqual(self.value("retention.ms"), str(7 * DAY))

    def test_errors_stay_at_the_field(self) -> None:
        for setting, value, expected in (
            ("retention.ms", "soon", "'soon' is not accepted; expected a whole number"),
            ("retention.ms", "", "expected a whole number"),
            ("delete.policies", "nothing", "expected any of"),
            ("min.insync.replicas", "7d", "'7d' is not accepted"),
        ):
            answer = self.save(edit=setting, value=value)
            self.assertEqual(answer.code, 400, setting)
            self.assertIn(expected, Parsed(answer.body).text)
            self.assertIn(f'name="value" value="{value}"', answer.body)
            self.assertIn('aria-invalid="true"', answer.body)
        self.assertEqual(self.value("retention.ms"), str(7 * DAY))
        self.assertEqual(self.save(edit="no.such.setting", value="1").code, 404)
        self.assertEqual(self.submit("topics/nothing/settings", edit="retention.ms", value="1").code, 404)

    def test_a_value_that_is_not_in_the_list_can_be_chosen_again(self) -> None:
        self.node.create("clicks", cleanup_policy="delete,compact")
        body = self.connect().get("/topics/clicks/settings?edit=cleanup.policy").body
        self.assertIn("<option selected>delete,compact</option>", body)
