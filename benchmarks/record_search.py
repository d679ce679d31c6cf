"""`python -m benchmarks.record_search`: records per second that a search of the web UI looks at.

A topic of JSON records of about 130 bytes in four partitions is searched in this process, with the broker's own code.
Figures are processor time, of the reactor thread and of the reading threads together.
"""

import json
import random
import time
from tempfile import TemporaryDirectory

import click

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.conditions import compile_condition
from pylogbroker.records import Codec
from pylogbroker.records.columnar import encode
from pylogbroker.web.record_search.search import SearchRequest, TopicSearch
from pylogbroker.web.record_search.selection import Selection
from pylogbroker.web.samples import Samples
from pylogbroker.web.visitors import Visitor
from tests.broker.nodes import Node, opened_node
from tests.broker.trees import now

PARTITIONS = 4
BATCH_RECORDS = 500
CONDITIONS = (
    'value.customer == "c-3"',
    'value.customer == "nobody"',
    'value.customer ~ "C-77"',
    "value.amount > 199.99",
    'value.status == "paid" and value.amount < 0.05',
    "not exists value.status",
)
TEXT = "a-99x"


def fill(node: Node, count: int, codec: Codec) -> None:
    node.create("orders", partitions=PARTITIONS)
    chance = random.Random(1)
    timestamp = 1_700_000_000_000
    for number in range(0, count, BATCH_RECORDS):
        values = [order(chance, number + at) for at in range(BATCH_RECORDS)]
        batch = encode(None, values, [timestamp] * BATCH_RECORDS, codec=codec)
        node.broker.partitions.find("orders", number // BATCH_RECORDS % PARTITIONS).append(batch, timestamp)
        timestamp += 100


def order(chance: random.Random, number: int) -> bytes:
    return json.dumps(
        {
            "order": 9_007_199_254_740_993 + number,
            "customer": f"c-{chance.randrange(900)}",
            "amount": chance.randrange(20_000) / 100,
            "status": chance.choice(["paid", "open", "shipped"]),
            "items": [{"sku": f"A-{chance.randrange(100)}", "count": 2}],
        },
        separators=(",", ":"),
    ).encode()


def search(node: Node, selection: Selection) -> tuple[int, int]:
    """Return the numbers of records that were looked at and selected."""
    visitor = Visitor(node.broker, RequestContext(0, "benchmark", "127.0.0.1", "127.0.0.1"), Samples())
    running = now(TopicSearch.opened(visitor, SearchRequest("orders", selection)))
    selected = 0
    while not running.is_done:
        selected += len(now(running.advance(200)))
    return running.looked_at, selected


@click.command()
@click.option("--records", default=1_000_000, help="Records of the topic.")
@click.option("--codec", default="NONE", type=click.Choice([codec.name for codec in Codec]))
def main(records: int, codec: str) -> None:
    with TemporaryDirectory() as directory, opened_node((directory,)) as node:
        fill(node, records, Codec[codec])
        selections = {condition: Selection(compile_condition(condition)) for condition in CONDITIONS}
        for name, selection in {**selections, f"text {TEXT}": Selection(text=TEXT)}.items():
            began = time.process_time()
            looked_at, selected = search(node, selection)
            seconds = time.process_time() - began
            click.echo(f"{looked_at / seconds:>12,.0f} records/s  {selected:>9,} selected  {name}")


if __name__ == "__main__":
    main()
