"""Plugins from arguments and settings; errors that name what would be accepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from zope.interface import implementer

from pylogbroker.client.plugin_lookup import (
    ASSIGNOR,
    CALLBACK_HANDLER,
    DECODER,
    ENCODER,
    PARTITIONER,
    PluginKind,
    resolve_plugin,
    resolve_plugins,
)
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import IEncoder, IEncoderFactory
from pylogbroker.plugins import assignors, callback_handlers, partitioners, serialization
from pylogbroker.plugins.callback_handlers import LoggingHandler, MetricsHandler
from pylogbroker.plugins.partitioners import HashPartitioner, StickyHashPartitioner
from tests.support.plugin_modules import plugin_modules


@implementer(IEncoder)
class Hexadecimal:
    def to_message(self, data: Any) -> bytes | None:
        return bytes.fromhex(data)


@implementer(IEncoderFactory)
@attrs.frozen
class Factory:
    name: object
    made: Callable[[str, Mapping[str, object]], object]

    def make(self, argument: str, settings: Mapping[str, object]) -> Any:
        return self.made(argument, settings)


def test_names() -> None:
    plugged = resolve_plugin(ENCODER, "value.serializer", "json", {})
    assert (plugged.plugin, plugged.name) == (serialization.json_encoder, "json")
    assert resolve_plugin(DECODER, "value.deserializer", "json", {}).plugin is serialization.json_decoder
    assert resolve_plugin(ASSIGNOR, "partition.assignment.strategy", "range", {}).plugin is assignors.range_
    made = resolve_plugin(PARTITIONER, "partitioner.class", "hash", {})
    assert (type(made.plugin), made.name) == (StickyHashPartitioner, "hash")
    assert type(resolve_plugin(PARTITIONER, "partitioner.class", "hash:random", {}).plugin) is HashPartitioner


def test_objects_and_factories() -> None:
    encoder = Hexadecimal()
    plugged = resolve_plugin(ENCODER, "value.serializer", encoder, {})
    assert (plugged.plugin, plugged.name) == (encoder, "Hexadecimal")
    seen: list[object] = []
    factory = Factory("hex", lambda *given: seen.extend(given) or encoder)
    plugged = resolve_plugin(ENCODER, "value.serializer", factory, {"linger.ms": 5})
    assert (plugged.plugin, plugged.name, seen) == (encoder, "hex", ["", {"linger.ms": 5}])
    assert resolve_plugin(ENCODER, "value.serializer", Factory("", factory.made), {}).name == "Factory"
    assert resolve_plugin(PARTITIONER, "partitioner.class", partitioners.by_hash, {}).name == "hash"


def test_several() -> None:
    setting = "callback.handlers"
    found = resolve_plugins(CALLBACK_HANDLER, setting, " logging:info , metrics ", {})
    assert [(type(each.plugin), each.name) for each in found] == [
        (LoggingHandler, "logging"),
        (MetricsHandler, "metrics"),
    ]
    mine = MetricsHandler()
    found = resolve_plugins(CALLBACK_HANDLER, setting, ["logging", mine, callback_handlers.metrics_handler], {})
    assert [each.name for each in found] == ["logging", "MetricsHandler", "metrics"]
    assert found[1].plugin is mine
    assert [each.plugin for each in resolve_plugins(CALLBACK_HANDLER, setting, mine, {})] == [mine]
    for nothing in "", " ", [], ():
        assert resolve_plugins(CALLBACK_HANDLER, setting, nothing, {}) == ()


def complain(*given: object) -> Any:
    raise ValueError("expected a colour: paint:red")


def fail(*given: object) -> Any:
    raise LookupError("lost")


def leave(*given: object) -> Any:
    raise SystemExit(3)


class Half:
    """Has what an encoder needs, but does not say so."""

    def to_message(self, data: Any) -> bytes | None:
        return None


@implementer(IEncoder)
class Empty:
    """Says that it is an encoder, and is none."""

    def __repr__(self) -> str:
        return "<empty>"


@pytest.mark.parametrize(
    ("kind", "choice", "why"),
    [
        (ENCODER, "yaml", r"'yaml' is not accepted; expected any of bytes, json, utf-8; no others are installed$"),
        (ENCODER, "", r"'' is not accepted; expected any of bytes"),
        (ENCODER, "json:3", r"'json:3' is not accepted; json takes no argument$"),
        (ENCODER, "json:", r"'json:' is not accepted; json takes no argument$"),
        (PARTITIONER, "hash:3", r"'hash:3' is not accepted; expected hash or hash:random$"),
        (PARTITIONER, "random:3", r"'random:3' is not accepted; random takes no argument$"),
        (CALLBACK_HANDLER, "logging:loud", r"'logging:loud' is not accepted; expected a level, any of debug, info"),
        (ENCODER, Factory("paint", complain), r"is not accepted; expected a colour: paint:red$"),
        (ENCODER, Factory("paint", fail), r"is not accepted; making it failed with LookupError\('lost'\)$"),
        (ENCODER, Factory("paint", leave), r"is not accepted; making it failed with SystemExit\(3\)$"),
        (ENCODER, Factory("paint", lambda *given: None), r"\(encoders provide IEncoder\)$"),
        (ENCODER, Half(), r"\(encoders provide IEncoder\)$"),
        (ENCODER, Empty(), r"<empty> is not accepted; .*to_message.*\(encoders provide IEncoder\)$"),
        (ENCODER, serialization.json_decoder, r"\(encoders provide IEncoder\)$"),
        (ENCODER, Hexadecimal, r"\(encoders provide IEncoder\)$"),
        (DECODER, None, r"None is not accepted; .*\(decoders provide IDecoder\)$"),
    ],
)
def test_errors(kind: PluginKind[Any], choice: object, why: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s)^some\.setting: .*{why}"):
        resolve_plugin(kind, "some.setting", choice, {})


def test_interrupting_is_not_failing() -> None:
    def interrupt(*given: object) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resolve_plugin(ENCODER, "value.serializer", Factory("slow", interrupt), {})


SPELLING = """
from twisted.plugin import IPlugin
from zope.interface import implementer
from pylogbroker.interfaces import IEncoder, IEncoderFactory

@implementer(IEncoder)
class Encoder:
    def __init__(self, argument, settings):
        self.argument, self.settings = argument, settings
    def to_message(self, data):
        return data.encode(self.argument)

@implementer(IPlugin, IEncoderFactory)
class Factory:
    name = "spelled"
    def make(self, argument, settings):
        return Encoder(argument, settings)

spelled = Factory()
"""


def test_a_factory_gets_its_argument_and_the_settings(tmp_path: Path) -> None:
    with plugin_modules(tmp_path) as put:
        put("spelling", SPELLING)
        plugged: Any = resolve_plugin(ENCODER, "value.serializer", "spelled:latin-1:x", {"linger.ms": 5})
        assert (plugged.name, plugged.plugin.argument) == ("spelled", "latin-1:x")
        assert plugged.plugin.settings == {"linger.ms": 5}
        with pytest.raises(TypeError):
            plugged.plugin.settings["linger.ms"] = 6
        with pytest.raises(ConfigError, match="expected any of bytes, json, spelled, utf-8"):
            resolve_plugin(ENCODER, "value.serializer", "yaml", {})


def test_built_in_plugins_work_without_a_plugin_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylogbroker.plugins.__path__", ["/nonexistent"])
    assert resolve_plugin(ENCODER, "value.serializer", "json", {}).plugin is serialization.json_encoder
