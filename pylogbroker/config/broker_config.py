"""Settings in force for a broker.

A value comes from the first layer that has it; without one, from the first synonym that has one:

    1  dynamic, this broker          AlterConfigs, stored in the coordination tree
    2  dynamic, the whole cluster    AlterConfigs, stored in the coordination tree
    3  static                        file and command line
    4  default                       the table
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache

import attrs

from pylogbroker.config import listeners, parsing, table, unused_settings
from pylogbroker.config.archive_checks import check_archive
from pylogbroker.config.broker_values import BrokerValues, ListenerValues
from pylogbroker.config.given import no_such_setting
from pylogbroker.config.security_settings import LISTENER_SETTINGS
from pylogbroker.config.setting import ConfigSource, Mode, Setting, Synonym
from pylogbroker.config.static_checks import CONTROLLER_ROLE, check_static
from pylogbroker.config.topic_config import TopicCheck, TopicConfig, TopicDefaults, check_format, check_together
from pylogbroker.config.value_kinds import INT_MAX, Value
from pylogbroker.config.values import Values
from pylogbroker.errors import ConfigError
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol

Texts = Mapping[str, str]
_TYPO_SIMILARITY_MIN = 0.92  # a name this similar to a used setting is a typo, not another of Kafka's
_INTER_BROKER = "inter.broker.listener.name"
_DYNAMIC = (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)


@attrs.frozen
class Reloaded:
    changes: Mapping[str, tuple[Value, Value]]  # before and after
    postponed: tuple[str, ...]  # until the next start
    overridden: tuple[str, ...]  # by AlterConfigs
    warnings: tuple[str, ...]


class BrokerConfig(BrokerValues):
    """Settings from the texts of a file and a command line.

    Raise ConfigError for an invalid value. `warnings` name unknown settings, and those without effect.
    """

    __slots__ = ("_check_topic", "_decided", "_layers", "_observers", "_topics", "listeners", "unknown", "warnings")

    def __init__(self, static: Texts) -> None:
        recognized = {name: text for name, text in static.items() if table.broker_setting(name) is not None}
        self.unknown = tuple(unknown_names(static))
        self.warnings = (*self.unknown, *_without_effect(static))
        self._layers: dict[ConfigSource, Texts] = {ConfigSource.STATIC_BROKER_CONFIG: recognized}
        self._decided: set[str] = set()
        self._observers: list[Callable[[frozenset[str]], object]] = []
        self._check_topic: TopicCheck = lambda settings, explicit, before: None
        super().__init__(_effective(self._layers))
        self._topics = _topic_defaults(self)
        check_static(self)
        check_together(self.topic({}))
        self.listeners = _resolve_listeners(self)
        self.warnings += tuple(_unknown_listeners(recognized, [*self.listeners, *self._of_controllers()]))
        for name in recognized.keys() - table.BROKER.keys():
            _parse(name, recognized[name])

    @property
    def has_sasl(self) -> bool:
        """True if clients of a listener must authenticate by SASL."""
        return any(listener.security.has_sasl for listener in self.listeners)

    @property
    def controller_listener(self) -> listeners.Listener:
        """Listener of the controllers that a member of their cluster connects to; raise ConfigError.

        As in Kafka, it is PLAINTEXT if listener.security.protocol.map is not set.
        """
        name = self.controller_listeners[0].upper()
        try:
            protocol = listeners.parse_protocols(self.listener_security_protocol_map).get(name)
        except ValueError as error:
            raise ConfigError(f"listener.security.protocol.map: {error}") from None
        if protocol is None and not self.is_set("listener.security.protocol.map"):
            protocol = listeners.PLAINTEXT
        if protocol is None:
            raise ConfigError(
                f"listener.security.protocol.map: expected a protocol for the controllers' listener {name}"
            )
        return listeners.Listener(name, "", 0, protocol, "", 0)

    def _of_controllers(self) -> tuple[listeners.Listener, ...]:
        return (self.controller_listener,) if self.in_kraft else ()

    @property
    def inter_broker_protocol(self) -> InterBrokerProtocol:
        return InterBrokerProtocol.parse(self.inter_broker_protocol_version)

    @property
    def inter_broker_listener(self) -> listeners.Listener:
        """Listener on which brokers connect to each other; raise ConfigError if there is none of its name."""
        protocol = "security.inter.broker.protocol"
        name = self.inter_broker_listener_name
        if name is not None and protocol in self.explicit(ConfigSource.STATIC_BROKER_CONFIG):
            raise ConfigError(f"{protocol}: {_INTER_BROKER} is set, too; remove one of them")
        if name is None and protocol in self.explicit(ConfigSource.STATIC_BROKER_CONFIG):
            name = self.text(protocol)
        kafka = [listener for listener in self.listeners if listener.protocol != listeners.SIMPLE]
        inter_broker = next((listener for listener in kafka if name is None or listener.name == name.upper()), None)
        if inter_broker is None:
            expected = f"a listener named {name}" if name else "a listener for Kafka's protocol, for the other brokers"
            raise ConfigError(f"listeners: {self.listeners_text!r} is not accepted; expected {expected}")
        return inter_broker

    def of_listener(self, listener: listeners.Listener, mechanism: str | None = None) -> ListenerValues:
        """Return the values of security settings for one listener: its own, or else those of all.

        With a mechanism of SASL, those that are set for it count before the listener's.
        """
        values = {name: self[name] for name in LISTENER_SETTINGS}
        own = [] if mechanism is None else [f"{listener.prefix}{mechanism.lower()}."]
        for prefix in (listener.prefix, *own):
            for name in LISTENER_SETTINGS:
                text = self.set_text(prefix + name)
                if text is not None:
                    values[name] = _parse(prefix + name, text)
        return ListenerValues(values)

    def connection_rate(self, listener: listeners.Listener) -> int:
        """Return the connections per second that are set for one listener alone."""
        return self._of_one_listener(listener, "max.connection.creation.rate")

    def connections_of(self, listener: listeners.Listener) -> int:
        """Return the number of connections that is set for one listener alone."""
        return self._of_one_listener(listener, "max.connections")

    def _of_one_listener(self, listener: listeners.Listener, name: str) -> int:
        text = self.set_text(listener.prefix + name)
        return INT_MAX if text is None else int(str(_parse(listener.prefix + name, text)))

    def is_set(self, name: str) -> bool:
        """Return whether a file, a command line or AlterConfigs has set it."""
        return self.set_text(name) is not None

    def set_text(self, name: str) -> str | None:
        """Return the text that a file, a command line or AlterConfigs has for a name."""
        layers = (self._layers.get(source, {}) for source in (*_DYNAMIC, ConfigSource.STATIC_BROKER_CONFIG))
        return next((layer[name] for layer in layers if name in layer), None)

    def preview(self, texts: Texts) -> BrokerConfig:
        """Return the settings as they would be with other dynamic settings of this broker."""
        changed = copy(self)
        changed._observers = []
        changed._layers = {**self._layers, ConfigSource.DYNAMIC_BROKER_CONFIG: texts}
        changed._values = _effective(changed._layers)
        return changed

    def decide(self, name: str, text: str) -> None:
        """Set a value that the file left open, as if it were there."""
        static = dict(self.explicit(ConfigSource.STATIC_BROKER_CONFIG))
        self._layers[ConfigSource.STATIC_BROKER_CONFIG] = static | {name: text}
        self._decided.add(name)
        self._values = _effective(self._layers)

    def explicit(self, source: ConfigSource) -> Texts:
        return self._layers.get(source, {})

    def topic(self, overrides: Texts) -> TopicConfig:
        """Return the settings in force for a topic; raise ConfigError."""
        return self._topics.resolve(overrides)

    def add_topic_check(self, check: TopicCheck) -> None:
        """Set a further check of changed topic settings; it raises ConfigError.

        Arguments: the new settings, the overrides' names, and the current settings or None.
        """
        self._check_topic = check

    def check_topic(self, overrides: Texts, before: Texts | None = None) -> None:
        """Raise ConfigError for overrides that a topic must not get; `before`, its current ones, are accepted."""
        settings, current = self.topic(overrides), None if before is None else self.topic(before)
        check_format(settings, current)
        has_topic_ids = not self.zookeeper_connect or self.inter_broker_protocol.has_topic_ids
        check_archive(settings, current, self.remote_log_storage_system_enable, has_topic_ids)
        if not self.schema_registry_listeners:
            _check_not_validated(settings)
        self._check_topic(settings, overrides, current)

    def observe(self, observer: Callable[[frozenset[str]], object]) -> None:
        """Call `observer` with the names of changed settings after each dynamic change."""
        self._observers.append(observer)

    def check_dynamic(self, source: ConfigSource, texts: Mapping[str, str | None]) -> dict[str, str]:
        """Return a valid dynamic layer; raise ConfigError if it cannot take effect."""
        checked = {name: _check_dynamic(name, text, source) for name, text in texts.items()}
        values = Values(_effective(self._layers | {source: checked}))
        topic = _topic_defaults(values).resolve({})
        check_together(topic)
        self._check_topic(topic, checked, self.topic({}))
        return checked

    def set_dynamic(self, source: ConfigSource, texts: Texts) -> frozenset[str]:
        """Replace a dynamic layer; return the names of changed settings.

        Settings no longer valid are left out: they must not prevent a start.
        """
        return self._put(source, {name: text for name, text in texts.items() if _acceptable(name, text, source)})

    def reload(self, static: Texts) -> Reloaded:
        """Apply a changed file and command line, as far as possible at run time.

        Raise ConfigError, with nothing changed, if a broker could not start with them.
        """
        loaded = BrokerConfig(static)
        new, old = loaded.explicit(ConfigSource.STATIC_BROKER_CONFIG), self.explicit(ConfigSource.STATIC_BROKER_CONFIG)
        differing = sorted(name for name in new.keys() | old.keys() if new.get(name) != old.get(name))
        postponed = [name for name in differing if not _is_dynamic(name)]
        mixed = {name: text for name, text in new.items() if _is_dynamic(name)}
        mixed |= {name: text for name, text in old.items() if not _is_dynamic(name)}
        topic = _topic_defaults(Values(_effective(self._layers | {ConfigSource.STATIC_BROKER_CONFIG: mixed}))).resolve(
            {}
        )
        check_together(topic)
        self._check_topic(topic, mixed, self.topic({}))
        before = self._values
        changed = self._put(ConfigSource.STATIC_BROKER_CONFIG, mixed)
        return Reloaded(
            changes={name: (before[name], self._values[name]) for name in sorted(changed & before.keys())},
            postponed=tuple(name for name in postponed if name in new or name not in self._decided),
            overridden=tuple(name for name in differing if any(name in self.explicit(layer) for layer in _DYNAMIC)),
            warnings=tuple(warning for warning in loaded.warnings if warning not in self.warnings),
        )

    def _put(self, source: ConfigSource, texts: Texts) -> frozenset[str]:
        before, texts_before = self._values, self._layers.get(source, {})
        self._layers[source] = texts
        self._values = _effective(self._layers)
        self._topics = _topic_defaults(self)
        changed = frozenset(name for name, value in self._values.items() if before[name] != value) | {
            name
            for name in texts.keys() | texts_before.keys()
            if name not in before and texts.get(name) != texts_before.get(name)
        }
        for observer in self._observers if changed else ():
            observer(changed)
        return changed


def _parse(name: str, text: str) -> Value:
    setting = table.broker_setting(name)
    assert setting is not None
    return parsing.parse(setting, text)


def _effective(layers: Mapping[ConfigSource, Texts]) -> dict[str, Value]:
    given = {reader for texts in layers.values() for name in texts for reader in _readers().get(name, ())}
    return _defaults() | {name: _value(table.BROKER[name], layers) for name in given}


@cache
def _defaults() -> dict[str, Value]:
    return {name: _value(setting, {}) for name, setting in table.BROKER.items()}


@cache
def _readers() -> Mapping[str, Sequence[str]]:
    """Map each name to the settings whose values it gives: itself, and those that have it as a synonym."""
    readers: dict[str, list[str]] = {}
    for name, setting in table.BROKER.items():
        for synonym in _names(setting):
            readers.setdefault(synonym.name, []).append(name)
    return readers


def _names(setting: Setting) -> Sequence[Synonym]:
    return Synonym(setting.name), *setting.synonyms


def _value(setting: Setting, layers: Mapping[ConfigSource, Texts]) -> Value:
    for synonym in _names(setting):
        for source in (*_DYNAMIC, ConfigSource.STATIC_BROKER_CONFIG):
            if synonym.name in layers.get(source, {}):
                text = layers[source][synonym.name]
                return _scaled(parsing.parse(table.BROKER[synonym.name], text), synonym.factor)
    defaults = ((table.BROKER[synonym.name].default, synonym.factor) for synonym in _names(setting))
    return next((_scaled(value, factor) for value, factor in defaults if value is not None), None)


def _scaled(value: Value, factor: int) -> Value:
    return value * factor if type(value) is int and value > 0 else value


def _check_not_validated(settings: TopicConfig) -> None:
    """Raise ConfigError for a topic whose records a schema registry would validate."""
    for name in ("confluent.key.schema.validation", "confluent.value.schema.validation"):
        if settings.boolean(name):
            raise ConfigError(f"{name}: this broker has no schema registry: set schema.registry.listeners")


def _topic_defaults(broker: Values) -> TopicDefaults:
    return TopicDefaults(
        {
            name: broker[setting.synonyms[0].name] if setting.synonyms else setting.default
            for name, setting in table.TOPIC.items()
        }
    )


def unknown_names(static: Texts) -> Iterator[str]:
    """Return a warning for each name that is no setting, probably misspelt."""
    for name in static:
        if _reason_without_effect(name) is None:
            near = parsing.closest(name, table.BROKER)
            yield f"{name} is not a setting, ignored" + (f"; did you mean {near}?" if near else "")


def _without_effect(static: Texts) -> Iterator[str]:
    for name in static:
        reason = _reason_without_effect(name)
        if reason:
            yield f"{name} has no effect: {reason}"
        elif name == "process.roles" and CONTROLLER_ROLE in static[name]:
            yield "process.roles has no effect: this broker is its own controller, without KRaft"


def _reason_without_effect(name: str) -> str | None:
    """Return "" for a setting that has an effect, None for a name that is no setting."""
    setting = table.broker_setting(name)
    if setting:
        return setting.no_effect or ""
    reason = unused_settings.reason_without_effect(name)
    is_typo = reason and parsing.closest(name, table.BROKER, similarity_min=_TYPO_SIMILARITY_MIN)
    return None if is_typo else reason or None


def _unknown_listeners(static: Texts, resolved: Sequence[listeners.Listener]) -> Iterator[str]:
    for name in static:
        if name.startswith(listeners.LISTENER_PREFIX) and not any(
            name.startswith(listener.prefix) for listener in resolved
        ):
            names = ", ".join(listener.name.lower() for listener in resolved)
            yield f"{name} has no effect: there is no such listener; the listeners, in lower case: {names}"


def _is_dynamic(name: str) -> bool:
    setting = table.broker_setting(name)
    return setting is not None and setting.dynamic


def _resolve_listeners(config: BrokerConfig) -> tuple[listeners.Listener, ...]:
    controllers = config.controller_listeners
    try:
        return listeners.resolve(
            config.listeners_text,
            config.advertised_listeners,
            config.listener_security_protocol_map,
            frozenset(name.upper() for name in controllers),
        )
    except ValueError as error:
        raise ConfigError(_sentence(str(error), config)) from error


def _sentence(detail: str, config: BrokerConfig) -> str:
    name, _, expected = detail.partition(": ")
    return f"{name}: {config.optional_text(name)!r} is not accepted; {expected}"


def _check_dynamic(name: str, text: str | None, source: ConfigSource) -> str:
    setting = table.broker_setting(name)
    if setting is None:
        raise no_such_setting(name)
    if not setting.dynamic:
        raise ConfigError(f"{name}: cannot be changed while the broker runs")
    if source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG and setting.mode is Mode.PER_BROKER:
        raise ConfigError(f"{name}: can be changed for one broker only, not for all")
    if name in LISTENER_SETTINGS:
        prefix = f"{listeners.LISTENER_PREFIX}<listener in lower case>."
        raise ConfigError(f"{name}: can be changed for one listener only; set {prefix}{name}")
    if text is None:
        raise ConfigError(f"{name}: no value; expected {setting.kind.expected}")
    parsing.parse(setting, text)
    return text


def _acceptable(name: str, text: str, source: ConfigSource) -> bool:
    try:
        _check_dynamic(name, text, source)
    except ConfigError:
        return False
    return True
