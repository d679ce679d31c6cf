"""Schemas of a registry that `schema.registry.url` names, for keys and values that pages show.

The registry is asked by a worker thread, one request after the other. While it is away, or denies, contents stay as
they are, and `problem` says why.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, DeferredLock, ensureDeferred

from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError, PylogbrokerError
from pylogbroker.extras import MissingExtra
from pylogbroker.features import on_first_use
from pylogbroker.schemas.codecs import TITLES, SchemaCodec, codec_of
from pylogbroker.schemas.errors import InvalidSchema, RegistryDenied, RegistryUnavailable, SchemaError
from pylogbroker.schemas.framing import Field, FramedContent, frame_of
from pylogbroker.schemas.limits import JsonBudget
from pylogbroker.schemas.registry_client import RegistryClient, blocking
from pylogbroker.schemas.values import Schema
from pylogbroker.web.hosted_registry import HostedRegistry, RegistrySender, SubjectBrowser
from pylogbroker.web.remote_registry import RemoteRegistry

if TYPE_CHECKING:
    from pylogbroker.schemas import blocking as blocking_exchange
    from pylogbroker.schemas import endpoint
else:
    blocking_exchange = on_first_use("pylogbroker.schemas.blocking")
    endpoint = on_first_use("pylogbroker.schemas.endpoint")

SchemaKey = int | UUID
T = TypeVar("T")
ENTRIES_MAX: Final = 1000
LOOKUPS_MAX: Final = 50
"""Schemas that one search asks for: anybody may write records that name many."""
DECODED_BYTES_MAX: Final = 1024 * 1024
JSON_CHARACTERS_MAX: Final = 4 * 1024 * 1024
"""Characters of the JSON of one key or value."""
NOT_ASKED: Final = (
    f"Schemas were not asked for beyond {LOOKUPS_MAX}, the most of one search: records of others stay as they are."
)
_OWN: Final = "this broker"
_REQUEST_SECONDS: Final = 3.0
_RETRY_SECONDS: Final = 10.0
_FORGET_SECONDS: Final = 60.0


@attrs.frozen(eq=False, repr=False)
class LoadedSchema:
    """A codec with what names it; without a codec, `problem` says why."""

    key: SchemaKey
    codec: SchemaCodec | None = None
    title: str = ""
    versions: tuple[tuple[str, int], ...] = ()
    problem: str = ""
    schema: Schema | None = None

    @property
    def kind(self) -> str:
        return "" if self.schema is None else self.schema.kind

    def label(self, topic: str, field: Field) -> str:
        """Return a text like "Avro, schema 17, orders-value v3"."""
        version = self.version_for(topic, field)
        return f"{self.title}, schema {self.key}" + (f", {version[0]} v{version[1]}" if version else "")

    def version_for(self, topic: str, field: Field) -> tuple[str, int] | None:
        """Return subject and version of the schema; of several, that of the topic comes first."""
        subject = f"{topic}-{field}"
        return min(
            self.versions, key=lambda version: (version[0] != subject, topic not in version[0], version), default=None
        )


@attrs.frozen
class DecodedContent:
    """JSON of a key or value, or why there is none; both are empty for content without a schema."""

    text: str | None = None
    label: str = ""
    problem: str = ""
    schema: LoadedSchema | None = None
    topic: str = ""
    message: str = ""
    """Message of Protobuf, empty for the first of the schema."""


@attrs.define(eq=False, repr=False)
class SchemaStore:
    """Schemas that were asked for, the oldest of which are forgotten."""

    _runtime: Runtime
    _client: RegistryClient | None
    reason: str = ""
    """Why the registry cannot be asked now; empty if it can."""
    _asked_again_at: float = 0.0
    _entries: OrderedDict[SchemaKey, tuple[LoadedSchema, float]] = attrs.field(factory=OrderedDict, init=False)
    """Schemas with the time at which they are asked for again."""
    own: HostedRegistry | None = attrs.field(default=None, init=False)
    """The registry if it is a part of this broker: it does not block."""
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    @classmethod
    def of(cls, config: BrokerConfig, runtime: Runtime) -> SchemaStore | None:
        """Return the store, None without a registry."""
        if not config.schema_registry_url:
            return None
        settings = {
            endpoint.URL: config.schema_registry_url,
            endpoint.USER_INFO: config.schema_registry_basic_auth_user_info or "",
            endpoint.TOKEN: config.schema_registry_bearer_auth_token or "",
            endpoint.CA: config.schema_registry_ssl_ca_location or "",
            endpoint.CERTIFICATE: config.schema_registry_ssl_certificate_location or "",
            endpoint.KEY: config.schema_registry_ssl_key_location or "",
        }
        try:
            where = endpoint.RegistryEndpoint.of(settings)
            client = None if where is None else blocking_exchange.blocking_client(where, _REQUEST_SECONDS)
        except ConfigError as error:
            return cls(runtime, None, str(error))
        return cls(runtime, client)

    @classmethod
    def of_own_registry(cls, own: HostedRegistry, runtime: Runtime) -> SchemaStore:
        """Return the store of the registry that is a part of this broker."""
        store = cls(runtime, RegistryClient(own.ask, _OWN))
        store.own = own
        return store

    @property
    def problem(self) -> str:
        """Sentence for contents that stay as they are since the registry cannot be asked now; empty if it can."""
        return _sentence(f"{self.reason}: keys and values are shown as they are") if self.reason else ""

    @property
    def where(self) -> str:
        """Address of the registry, without credentials; empty if the settings have none that can be used."""
        return "" if self._client is None else self._client.where

    @property
    def browser(self) -> SubjectBrowser | None:
        """Subjects of the registry; None if the settings have none that can be used."""
        if self.own is not None:
            return self.own
        return None if self._client is None else RemoteRegistry(self._runtime, self.ask)

    async def ask(self, sender: RegistrySender, question: Callable[[RegistryClient], Coroutine[Any, Any, T]]) -> T:
        """Return what a question gets from the registry; raise SchemaError.

        The broker's own registry decides by the rights of the sender. Another one gets the broker's credentials.
        """
        if self.own is not None:
            return await question(RegistryClient(partial(self.own.ask_for, sender), _OWN, denied_remedy=""))
        client = self._client
        if client is None or (self.reason and self._runtime.clock.seconds() < self._asked_again_at):
            raise RegistryUnavailable(self.reason)
        try:
            answer: T = await self._lock.run(self._runtime.in_thread, lambda: blocking(question(client)))
        except RegistryUnavailable as error:
            self._fail(error)
            raise
        return answer

    async def codec(self, key: SchemaKey, schema: Schema | None = None) -> LoadedSchema:
        """Return a schema with its codec; raise SchemaError.

        If the key has another schema than the given one by now, as after the loss of a registry, it is asked for again.
        """
        cached = self._entries.get(key)
        if schema is not None and cached is not None and cached[0].schema != schema:
            del self._entries[key]
        await self.load([key])
        entry = self._entries.get(key)
        if entry is None:
            raise RegistryUnavailable(self.reason)
        if entry[0].codec is None:
            raise InvalidSchema(entry[0].problem)
        return entry[0]

    def missing(self, keys: Iterable[SchemaKey]) -> list[SchemaKey]:
        """Return the schemas that are not loaded, each once, in this order."""
        return [key for key in dict.fromkeys(keys) if not self._is_fresh(key)]

    async def load(self, keys: Iterable[SchemaKey]) -> None:
        """Ask for schemas that are not loaded, at most LOOKUPS_MAX."""
        missing = self.missing(keys)[:LOOKUPS_MAX]
        if missing and self._client is not None:
            await self._lock.run(self._load, missing, self._client)

    async def _load_each(self, keys: list[SchemaKey], client: RegistryClient) -> None:
        for key in keys:
            if self._is_fresh(key):  # another request has asked meanwhile
                continue
            now = self._runtime.clock.seconds()
            if self.reason and now < self._asked_again_at:
                return
            try:
                schema = await self._loaded(client, key)
            except (RegistryUnavailable, RegistryDenied, MissingExtra, ConfigError) as error:
                self._fail(error)
                return
            self.reason = ""
            self._entries[key] = schema, now + (_FORGET_SECONDS if schema.codec is None else float("inf"))
            while len(self._entries) > ENTRIES_MAX:
                self._entries.popitem(last=False)

    def _fail(self, error: Exception) -> None:
        """Do not ask the registry for some time."""
        self.reason = str(error)
        self._asked_again_at = self._runtime.clock.seconds() + _RETRY_SECONDS

    async def _loaded(self, client: RegistryClient, key: SchemaKey) -> LoadedSchema:
        if self.own is None:
            schema: LoadedSchema = await self._runtime.in_thread(_loaded, client, key)
            return schema
        try:
            resolved = await client.by_key(key)
            codec = await self._runtime.in_thread(codec_of, resolved.schema, resolved.references)
            versions = await client.versions_of(key) if isinstance(key, int) else []
        except (RegistryUnavailable, RegistryDenied, MissingExtra):
            raise
        except PylogbrokerError as error:
            return LoadedSchema(key, problem=str(error))
        return LoadedSchema(key, codec, TITLES[resolved.schema.kind], tuple(versions), schema=resolved.schema)

    def _load(self, keys: list[SchemaKey], client: RegistryClient) -> Deferred[None]:
        return ensureDeferred(self._load_each(keys, client))

    def _is_fresh(self, key: SchemaKey) -> bool:
        entry = self._entries.get(key)
        return entry is not None and self._runtime.clock.seconds() < entry[1]

    def decoded(
        self, topic: str, field: Field, frame: FramedContent, budget: JsonBudget | None = None
    ) -> DecodedContent:
        """Return the JSON of content whose schema is loaded. May take long: for worker threads."""
        entry = self._entries.get(frame.schema)
        if entry is None:
            return DecodedContent(problem=self.problem or NOT_ASKED)
        schema = entry[0]
        if schema.codec is None:
            return DecodedContent(problem=_sentence(schema.problem))
        label = schema.label(topic, field)
        if len(frame.payload) > DECODED_BYTES_MAX:
            return DecodedContent(problem=f"{label}: values above {DECODED_BYTES_MAX:,} bytes are not decoded here.")
        try:
            text = schema.codec.decode(frame, budget or JsonBudget(JSON_CHARACTERS_MAX))
            return DecodedContent(text, label, "", schema, topic, schema.codec.message_name(frame))
        except SchemaError as error:
            return DecodedContent(problem=f"It does not fit its schema ({label}): {error}.")


@attrs.frozen(eq=False, repr=False)
class SchemaSource:
    """Makes the store of a broker when a page first needs it: of a registry that settings name, or of its own."""

    _made: dict[BrokerConfig, SchemaStore | None] = attrs.field(factory=dict)
    _own: list[HostedRegistry] = attrs.field(factory=list)

    def host(self, registry: HostedRegistry) -> None:
        """Use a registry that is a part of this broker."""
        self._own.append(registry)
        self._made.clear()

    def store(self, config: BrokerConfig, runtime: Runtime) -> SchemaStore | None:
        if config not in self._made:
            store = SchemaStore.of(config, runtime)
            if store is None and self._own:
                store = SchemaStore.of_own_registry(self._own[-1], runtime)
            self._made[config] = store
        return self._made[config]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _loaded(client: RegistryClient, key: SchemaKey) -> LoadedSchema:
    """Return a schema of the registry. Blocks."""
    try:
        resolved = blocking(client.by_key(key))
        codec = codec_of(resolved.schema, resolved.references)
        versions = blocking(client.versions_of(key)) if isinstance(key, int) else []
    except (RegistryUnavailable, RegistryDenied, MissingExtra):
        raise
    except PylogbrokerError as error:
        return LoadedSchema(key, problem=str(error))
    return LoadedSchema(key, codec, TITLES[resolved.schema.kind], tuple(versions), schema=resolved.schema)


def frames_of(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> dict[Field, FramedContent]:
    """Return the contents of a record that name a schema."""
    pairs: tuple[tuple[Field, bytes | None], ...] = (("key", key), ("value", value))
    frames = ((field, frame_of(content, headers, field)) for field, content in pairs if content is not None)
    return {field: frame for field, frame in frames if frame is not None}
