"""Plugins of all kinds are found by what they provide, and by their names."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pylogbroker import plugins as package
from pylogbroker.discovery import built_in, installed, not_declared, remember_installed
from pylogbroker.interfaces import (
    IAssignor,
    IAssignorFactory,
    ICallbackHandler,
    ICallbackHandlerFactory,
    IDecoder,
    IDecoderFactory,
    IDeletePolicyFactory,
    IEncoder,
    IEncoderFactory,
    IEventHandler,
    IEventHandlerFactory,
    IPartitioner,
    IPartitionerFactory,
)
from tests.broker.log_lines import logged_lines
from tests.support.plugin_modules import Put

OTHERS = """
from twisted.plugin import IPlugin
from zope.interface import implementer
from pylogbroker.interfaces import *

@implementer(IPlugin, INamed, IEncoder)
class Upper:
    def __init__(self, name):
        self.name = name
    def to_message(self, data):
        return data.upper()

@implementer(IPlugin, IEncoderFactory)
class UpperFactory:
    def __init__(self, name):
        self.name = name
    def make(self, argument, settings):
        return Upper(self.name)
"""


def in_order(line: str) -> str:
    """Modules are found in any order."""
    return re.sub(r"(pylog\S+), (pylog[^\s:]+)", lambda places: ", ".join(sorted(places.groups())), line)


@pytest.mark.parametrize(
    ("interfaces", "names"),
    [
        ((IEncoder, IEncoderFactory), {"bytes", "utf-8", "json"}),
        ((IDecoder, IDecoderFactory), {"bytes", "utf-8", "json"}),
        ((IPartitioner, IPartitionerFactory), {"hash", "random", "round-robin"}),
        ((ICallbackHandler, ICallbackHandlerFactory), {"logging", "metrics"}),
        ((IAssignor, IAssignorFactory), {"range", "roundrobin", "sticky", "cooperative-sticky"}),
        ((IEventHandler, IEventHandlerFactory), set()),
        ((IDeletePolicyFactory,), {"archive-parquet", "modification-time", "record-time", "size"}),
    ],
)
def test_built_in_plugins_are_found(interfaces: tuple[type, ...], names: set[str]) -> None:
    found = installed("plugin", *interfaces).plugins
    assert found.keys() == names
    assert all(plugin.name == name for name, plugin in found.items())
    assert built_in(*interfaces) == found


def test_all_modules_of_the_project_are_built_in() -> None:
    directory = Path(package.__file__).parent
    assert {path.stem for path in directory.glob("*.py")} - {"__init__"} == package.BUILT_IN


def test_objects_and_factories_share_names(put: Put) -> None:
    put("one", OTHERS + "a = Upper('upper')\nb = UpperFactory('made')\nc = Upper('json')\nd = Upper('both')\n")
    put("other", OTHERS + "e = UpperFactory('both')\nf = UpperFactory('utf-8')\ng = Upper('No')\n")
    with logged_lines() as lines:
        found = installed("encoder", IEncoder, IEncoderFactory).plugins
    assert found.keys() == {"bytes", "utf-8", "json", "upper", "made"}
    assert found["json"] is installed("encoder", IEncoder).plugins["json"]
    here = "pylogbroker.plugins"
    assert sorted(map(in_order, lines)) == [
        f"ignored {here}.one.c: json is the name of a built-in encoder",
        f"ignored {here}.one.d, {here}.other.e: more than one encoder is named both",
        f"ignored {here}.other.f: utf-8 is the name of a built-in encoder",
        f"ignored the encoder {here}.other.g: its name, 'No', must be made of a-z, 0-9 and -",
    ]
    assert "upper" not in installed("decoder", IDecoder, IDecoderFactory).plugins


def test_errors_for_a_name_say_why_it_was_ignored(put: Put) -> None:
    put("one", OTHERS + "a = Upper('both')\nb = Upper('Bad')\n")
    put("other", OTHERS + "c = UpperFactory('both')\n")
    encoders = installed("encoder", IEncoder, IEncoderFactory)
    names = "expected any of bytes, json, utf-8; "
    assert in_order(encoders.unknown("both")) == (
        f"{names}ignored pylogbroker.plugins.one.a, pylogbroker.plugins.other.c: more than one encoder is named both"
    )
    assert encoders.unknown("Bad") == (
        f"{names}ignored the encoder pylogbroker.plugins.one.b: its name, 'Bad', must be made of a-z, 0-9 and -"
    )
    assert encoders.unknown("upper") == f"{names}no others are installed"


def test_undeclared_plugins_and_broken_modules_are_named(put: Put) -> None:
    put("one", "class Upper:\n    name = 'upper'\nit = Upper()\n" + OTHERS + "lower = Upper('lower')\n")
    assert not_declared("encoder", "upper", IEncoder) == (
        "pylogbroker.plugins.one.it has this name, but provides no interface: "
        "an encoder needs @implementer(IPlugin, IEncoder)"
    )
    assert not_declared("partitioner", "lower", IPartitionerFactory, IPartitioner) == (
        "pylogbroker.plugins.one.lower has this name, but provides IEncoder, INamed, IPlugin: "
        "a partitioner needs @implementer(IPlugin, IPartitionerFactory or IPartitioner)"
    )
    assert not_declared("encoder", "missing", IEncoder) == ""
    put("broken", "raise RuntimeError('lost')")
    assert not_declared("encoder", "missing", IEncoder) == (
        "pylogbroker.plugins.broken cannot be imported: RuntimeError('lost')"
    )


def test_an_unwritable_cache_hides_no_plugin(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put("encoders", OTHERS + "a = Upper('upper')\n")
    put("broken", "raise RuntimeError('broken')")
    installed_there = str(path.parent)
    monkeypatch.setattr("pylogbroker.discovery.os.access", lambda path, mode: path != installed_there)
    with logged_lines() as lines:
        found = installed("encoder", IEncoder, IEncoderFactory).plugins
    assert set(found) == {"bytes", "utf-8", "json", "upper"}
    assert not path.with_name("dropin.cache").exists()
    assert [line.splitlines()[0] for line in lines] == ["ignored the plugins in pylogbroker.plugins.broken"]


def test_only_modules_with_the_interface_are_loaded(put: Put) -> None:
    path = put("encoders", OTHERS + "a = Upper('upper')\n")
    assert "upper" in installed("encoder", IEncoder).plugins
    put("encoders", "raise RuntimeError('loaded')")
    cache = path.with_name("dropin.cache").stat().st_mtime
    os.utime(path, (cache - 100, cache - 100))  # what is remembered of it counts still
    with logged_lines() as lines:
        assert installed("delete policy", IDeletePolicyFactory).plugins
    assert lines == []
    with logged_lines() as lines:
        assert "upper" not in installed("encoder", IEncoder).plugins
    assert lines == ["ignored the plugins in pylogbroker.plugins.encoders: RuntimeError('loaded')"]


def test_remembered_plugins_need_no_files(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    put("encoders", OTHERS + "a = Upper('upper')\n")
    monkeypatch.setattr("pylogbroker.discovery._remembered", [])
    remember_installed()
    monkeypatch.setattr(package, "__path__", [])
    assert set(installed("encoder", IEncoder, IEncoderFactory).plugins) == {"bytes", "utf-8", "json", "upper"}
