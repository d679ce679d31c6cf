"""Rights that a mirror's user lacks: the error names the side, and the right."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from twisted.internet import reactor

from pylogbroker.errors import PylogbrokerError
from pylogbroker.mirror.errors import MirrorError
from pylogbroker.mirror.mirror import Mirror
from pylogbroker.mirror.settings import MirroredCluster, MirrorSettings
from pylogbroker.testing import Broker
from tests.mirror.conftest import copy_all

READER = ("mirror all topic:*",)
WRITER = ("mirror all topic:*", "mirror all group:*", "mirror all transactional_id:*")
NO_TOPIC = (*WRITER[1:], "mirror all topic:mm2-offsets.east.internal")
NAME = "pylogbroker-mirror.east.offline"


def new_broker(acls: Sequence[str]) -> Broker:
    return Broker(users={"mirror": "secret"}, acls=acls)


def cluster(broker: Broker, alias: str, **settings: str) -> MirroredCluster:
    given = {**broker.client_settings("mirror"), **settings}
    return MirroredCluster(given.pop("bootstrap.servers", broker.bootstrap), alias, given)


def mirror(source: Broker, target: Broker, **settings: str) -> Mirror:
    clusters = cluster(source, "east", **settings), cluster(target, "offline")
    return Mirror(MirrorSettings(*clusters, ("orders",), sync=None), reactor)


async def test_enough_rights() -> None:
    with new_broker(READER) as source, new_broker(WRITER) as target:
        source.produce(source.create_topic("orders"), "tea")
        status = await copy_all(mirror(source, target))
        assert status.counts.records == 1


async def test_wrong_password_names_the_cluster() -> None:
    with new_broker(READER) as source, new_broker(WRITER) as target:
        wrong = {"sasl.password": "other"}
        with pytest.raises(MirrorError, match=r"the source east \(.*\) cannot be used: .*invalid credentials"):
            await copy_all(mirror(source, target, **wrong))


@pytest.mark.parametrize(
    ("reader", "writer", "why"),
    [
        (("mirror describe topic:orders",), WRITER, "needs the right to read it in the source"),
        (
            READER,
            (*NO_TOPIC, "mirror describe topic:orders", "mirror create topic:orders"),
            "needs the right to write to orders in the target",
        ),
        (
            READER,
            (*NO_TOPIC, "mirror describe topic:orders"),
            "orders cannot be created in the target",
        ),
    ],
)
async def test_topic_without_rights_stops(reader: Sequence[str], writer: Sequence[str], why: str) -> None:
    with new_broker(reader) as source, new_broker(writer) as target:
        source.produce(source.create_topic("orders"), "tea")
        status = await copy_all(mirror(source, target))
        assert why in status.stopped["orders"]


@pytest.mark.parametrize(
    ("writer", "why"),
    [
        (WRITER[:1] + WRITER[2:], f"to read and describe the group {NAME} in the target"),
        (WRITER[:2], f"to write and describe the transactional id {NAME} in the target"),
        (WRITER[1:], "mm2-offsets.east.internal cannot be created in the target: the mirror's user needs the right"),
    ],
)
async def test_mirror_without_rights_ends(writer: Sequence[str], why: str) -> None:
    with new_broker(READER) as source, new_broker(writer) as target:
        source.produce(source.create_topic("orders"), "tea")
        with pytest.raises(PylogbrokerError) as raised:
            await copy_all(mirror(source, target))
        assert why in str(raised.value)
