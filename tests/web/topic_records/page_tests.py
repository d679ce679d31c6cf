"""A topic with two partitions, and requests for the page with its records."""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

from pylogbroker.records import Codec, Record, build
from tests.web.test_pages import Parsed
from tests.web.test_site import Answer
from tests.web.test_views import NOW, ViewTests


def order(number: int) -> bytes:
    return b'{"order":900719925474099%d,"customer":"c-%d","amount":%d.50,"status":"paid"}' % (
        number,
        number % 4,
        number,
    )


class RecordsPageTests(ViewTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("orders", partitions=2)

    def append(self, partition: int, *records: Record, codec: Codec = Codec.NONE) -> None:
        self.node.broker.partitions.find("orders", partition).append(build(records, codec=codec), NOW)

    def fill(self, count: int) -> None:
        """Append records to one partition and the other, one millisecond apart."""
        for number in range(count):
            self.append(number % 2, Record(0, NOW + number, b"key-%d" % number, order(number), (("source", b"web"),)))

    def get(self, below: str = "", code: int = 200, topic: str = "orders", **fields: str) -> Answer:
        answer = self.connect().get(f"/topics/{quote(topic)}/records{below}?{urlencode(fields)}")
        self.assertEqual(answer.code, code, answer.body)
        return answer

    def page(self, **fields: str) -> Parsed:
        parsed = Parsed(self.get(**fields).body)
        self.assertEqual((parsed.handlers, parsed.unlabelled, parsed.nameless), ([], [], []))
        return parsed

    def places(self, parsed: Parsed) -> list[str]:
        """Return the permalinks of the rows."""
        matches = [re.search(r"[?&]at=([0-9]+:[0-9]+)", link) for link in parsed.links]
        return [*dict.fromkeys(match[1] for match in matches if match is not None)]
