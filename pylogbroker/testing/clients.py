"""Producers and consumers for tests, of the library that is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    import aiokafka
    import confluent_kafka
    import kafka
    from aiokafka import helpers

    from pylogbroker.client import sync
else:
    aiokafka = on_first_use("aiokafka")
    confluent_kafka = on_first_use("confluent_kafka")
    helpers = on_first_use("aiokafka.helpers")
    kafka = on_first_use("kafka")
    sync = on_first_use("pylogbroker.client.sync")

_MODULES: Final = {
    "confluent": "confluent_kafka",
    "kafka-python": "kafka",
    "aiokafka": "aiokafka",
    "pylogbroker": "pylogbroker",
}
_LIBRARIES: Final = tuple(_MODULES)
_EARLIEST: Final = {"auto.offset.reset": "earliest"}
_FLUSH_SECONDS: Final = 10.0
_PYTHON_NAMES: Final = {
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
}
"""Names of kafka-python and aiokafka that are not those of librdkafka with underscores."""


class Clients(Protocol):
    """Makes clients with settings by Kafka's names; each comes with the function that closes it."""

    def producer(self, settings: Mapping[str, Any], /) -> tuple[Any, Callable[[], object]]: ...
    def consumer(
        self, topics: Sequence[str], group: str, settings: Mapping[str, Any], /
    ) -> tuple[Any, Callable[[], object]]: ...


def clients_of(library: str) -> Clients:
    """Return the makers for a library's name; the first that is installed for an empty one."""
    chosen = library or next(name for name, module in _MODULES.items() if find_spec(module) is not None)
    if chosen not in _MODULES:
        raise ConfigError(f"kafka_client: {library!r} is not accepted; expected one of {', '.join(_LIBRARIES)}")
    made: dict[str, Clients] = {
        "confluent": _Confluent(),
        "kafka-python": _KafkaPython(),
        "aiokafka": _Aiokafka(),
        "pylogbroker": _Pylogbroker(),
    }
    return made[chosen]


@attrs.frozen
class _Confluent:
    def producer(self, settings: Mapping[str, Any]) -> tuple[Any, Callable[[], object]]:
        producer = confluent_kafka.Producer(dict(settings))
        return producer, lambda: producer.flush(_FLUSH_SECONDS)

    def consumer(
        self, topics: Sequence[str], group: str, settings: Mapping[str, Any]
    ) -> tuple[Any, Callable[[], object]]:
        consumer = confluent_kafka.Consumer({**_EARLIEST, "group.id": group, **settings})
        consumer.subscribe(list(topics))
        return consumer, consumer.close


@attrs.frozen
class _KafkaPython:
    def producer(self, settings: Mapping[str, Any]) -> tuple[Any, Callable[[], object]]:
        producer = kafka.KafkaProducer(**_underscored(settings))
        return producer, producer.close

    def consumer(
        self, topics: Sequence[str], group: str, settings: Mapping[str, Any]
    ) -> tuple[Any, Callable[[], object]]:
        consumer = kafka.KafkaConsumer(*topics, **_underscored({**_EARLIEST, "group.id": group, **settings}))
        return consumer, consumer.close


@attrs.define
class AsyncClient:
    """A client of aiokafka, for `async with`: it is made and started there, since it belongs to a running loop."""

    _make: Callable[[], Any]
    _client: Any = attrs.field(default=None, init=False)

    async def __aenter__(self) -> Any:
        self._client = self._make()
        return await self._client.__aenter__()

    async def __aexit__(self, *failure: Any) -> None:
        await self._client.__aexit__(*failure)


@attrs.frozen
class _Aiokafka:
    def producer(self, settings: Mapping[str, Any]) -> tuple[Any, Callable[[], object]]:
        return AsyncClient(lambda: aiokafka.AIOKafkaProducer(**self._named(settings))), _nothing

    def consumer(
        self, topics: Sequence[str], group: str, settings: Mapping[str, Any]
    ) -> tuple[Any, Callable[[], object]]:
        named = self._named({**_EARLIEST, "group.id": group, **settings})
        return AsyncClient(lambda: aiokafka.AIOKafkaConsumer(*topics, **named)), _nothing

    @staticmethod
    def _named(settings: Mapping[str, Any]) -> dict[str, Any]:
        named = _underscored(settings)
        files = {name: named.pop(f"ssl_{name}", None) for name in ("cafile", "certfile", "keyfile")}
        return named | ({"ssl_context": helpers.create_ssl_context(**files)} if files["cafile"] else {})


@attrs.frozen
class _Pylogbroker:
    def producer(self, settings: Mapping[str, Any]) -> tuple[Any, Callable[[], object]]:
        producer = sync.Producer(settings=settings)
        return producer, producer.close

    def consumer(
        self, topics: Sequence[str], group: str, settings: Mapping[str, Any]
    ) -> tuple[Any, Callable[[], object]]:
        """Return a stream of the messages of one topic."""
        [topic] = topics
        connector = sync.ConsumerConnector(group=group, settings={**_EARLIEST, **settings})
        return connector.stream(topic), connector.close


def _underscored(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {_PYTHON_NAMES.get(name, name.replace(".", "_")): value for name, value in settings.items()}


def _nothing() -> None:
    """Close nothing: the client's own block has."""
