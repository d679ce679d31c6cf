"""`with producer.transaction()` of `pylogbroker.client.sync`, on running brokers: however the block ends."""

from __future__ import annotations

import pytest

from pylogbroker.client.producer.errors import Fenced, NeedsAbort
from pylogbroker.client.sync import Producer
from tests.client.test_sync import read
from tests.support.brokers import Broker


def committed(broker: Broker, topic: str, count: int) -> list[bytes]:
    return read(broker.bootstrap, topic, count, **{"isolation.level": "read_committed"})


def test_a_commit_that_fails_is_an_abort(broker: Broker, topic: str) -> None:
    """Nobody has looked at what became of the record that failed."""
    with Producer(broker.bootstrap, transactional_id=topic, max_request_size=1000) as producer:
        with pytest.raises(NeedsAbort), producer.transaction():  # noqa: PT012
            producer.submit(topic, b"good")
            producer.submit(topic, b"x" * 2000)
        with producer.transaction():
            producer.send(topic, b"again")
    assert committed(broker, topic, 1) == [b"again"]


@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt])
def test_the_error_of_the_block_is_raised_even_if_the_abort_fails(
    broker: Broker, topic: str, error: type[BaseException]
) -> None:
    with Producer(broker.bootstrap, transactional_id=topic) as producer:
        with pytest.raises(error) as raised, producer.transaction():  # noqa: PT012
            producer.send(topic, b"first")
            with Producer(broker.bootstrap, transactional_id=topic) as other, other.transaction():
                other.send(topic, b"second")
            raise error
        assert "could not be aborted" in raised.value.__notes__[0]
        with pytest.raises(Fenced), producer.transaction():
            pass
    assert committed(broker, topic, 1) == [b"second"]


def test_a_block_that_ends_its_transaction_itself(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap, transactional_id=topic) as producer:
        with pytest.raises(LookupError), producer.transaction():  # noqa: PT012
            producer.send(topic, b"no")
            producer.abort()
            raise LookupError
        with producer.transaction():
            producer.send(topic, b"yes")
    assert committed(broker, topic, 1) == [b"yes"]
