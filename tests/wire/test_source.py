"""Functions made of text: their names, and that tracebacks show them."""

from __future__ import annotations

import traceback
from uuid import UUID

import pytest

from pylogbroker.wire import WireError, request_codec
from pylogbroker.wire.schema import fields_of
from pylogbroker.wire.source import SourceText
from tests.wire.kafka_apis import declared, names, versions


def test_a_module_of_several_functions() -> None:
    source = SourceText({"start": 1})
    with source.function("outer(x)"):
        with source.block("if x"):
            with source.function("inner(x)"):
                source.line("return x + start")
            table = source.constant("[inner]")
            source.line(f"return {table}[0](x)")
        source.line("return 0")
    outer = source.compile("outer", "a test")
    assert [outer(0), outer(5)] == [0, 6]


def test_no_two_objects_have_one_name() -> None:
    source = SourceText({})
    one, other = UUID(int=1), UUID(int=2)
    names = [source.literal(value) for value in (one, other, one)]
    assert names[0] == names[2] != names[1]
    with source.function("both()"):
        source.line(f"return {names[0]}, {names[1]}, {source.literal('text')}")
    assert source.compile("both", "a test")() == (one, other, "text")


def test_a_list_is_a_new_one_each_time() -> None:
    source = SourceText({})
    with source.function("make()"):
        source.line(f"return {source.literal([])}")
    make = source.compile("make", "a test")
    assert make() == []
    assert make() is not make()


def test_a_traceback_shows_the_line() -> None:
    with pytest.raises(WireError) as caught:
        request_codec(0, 0).decode(bytes.fromhex("0001 00000000 ffffffff"))
    shown = "".join(traceback.format_exception(caught.value))
    assert 'File "<decode ProduceRequest v0>"' in shown
    assert 'raise WireError("topic_data' in shown


@pytest.mark.parametrize("name", names())
def test_no_element_of_an_array_is_empty(name: str) -> None:
    """Else an array could claim any number of them and cost memory without a byte for each."""
    for version in versions(name):
        check_elements(name, version)


def check_elements(name: str, version: int) -> None:
    structs = [declared(name)]
    while structs and not declared(name).versions.is_flexible(version):
        for field in fields_of(structs.pop()):
            if isinstance(field.kind, type) and field.is_in(version):
                structs.append(field.kind)
                assert any(inner.is_in(version) for inner in fields_of(field.kind))
