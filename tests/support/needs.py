"""Finds out what a test needs: other processes, Apache Kafka, or nothing but the interpreter.

A test needs what its code refers to, and what the code of its fixtures and helpers refers to. The search follows names
from a function to the functions and classes of this project's tests, benchmarks and examples that it mentions, and
stops at `subprocess` and the like. So nobody marks a test by hand, and nothing has to run to know.

    needs(item)      # {"process"}, {"process", "kafka"}, {"oracle"} or nothing

Names that are computed (`getattr(module, name)`) stay hidden. `tests/support/process_guard.py` finds these: it fails a
test that starts a process without being known for it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType

import attrs
import click
import pytest

PROCESS = "process"
KAFKA = "kafka"
ORACLE = "oracle"

#: Modules by which processes are started; of the package, compaction, a compiler and brokers for tests do so.
STARTERS = frozenset(
    (
        "subprocess",
        "multiprocessing",
        "concurrent.futures.process",
        "pylogbroker.schemas.protobuf_codec",
        "pylogbroker.storage.compaction.process",
        "pylogbroker.testing.child_process",
        "tests.support.forks",
        "tests.support.run_services",  # starts them in another process of the run
    )
)
#: Functions of `os` and of the reactor that start processes.
STARTING_NAMES = frozenset(("fork", "forkpty", "posix_spawn", "posix_spawnp", "popen", "spawnProcess"))
#: Packages whose code is searched; others are taken to start nothing.
SEARCHED = frozenset(("tests", "benchmarks", "examples"))
#: What the fixtures need that choose their broker when they run.
FIXTURES: Mapping[str, frozenset[str]] = {
    "broker": frozenset((PROCESS,)),
    "new_broker": frozenset((PROCESS,)),
    "second_broker": frozenset((PROCESS, KAFKA)),
    "kafka4": frozenset((PROCESS, KAFKA)),
    "spark": frozenset((PROCESS,)),
    "trees": frozenset(),
}
#: Values of parameters by which such a fixture chooses.
PARAMETERS: Mapping[str, frozenset[str]] = {
    KAFKA: frozenset((PROCESS, KAFKA)),
    "kafka4": frozenset((PROCESS, KAFKA)),
    "ZooKeeper": frozenset((PROCESS,)),
}
#: Functions and modules that choose the broker when they run; they are not searched.
CHOOSERS = frozenset(
    ("tests.conftest.make_broker", "benchmarks.brokers", "benchmarks.clusters", "benchmarks.compaction")
)
#: Classes that are Apache Kafka.
KAFKA_CLASSES = frozenset(
    (
        "tests.peers.mirror_maker.MirrorMaker",
        "tests.peers.kafka.KafkaBroker",
        "tests.peers.kafka.KafkaCluster",
        "tests.peers.zookeeper_mode.ZooKeeperModeBroker",
    )
)

_NOTHING: frozenset[str] = frozenset()
_functions: dict[object, frozenset[str]] = {}
_tests: dict[tuple[object, type | None, tuple[str, ...]], frozenset[str]] = {}


@attrs.define
class _Searched:
    """An object, what it needs itself, and the objects to search next; kept, so that no other object gets its id.

    `all_needs` are those of the other objects too, once they have been searched.
    """

    thing: object
    owner: type | None
    needs: frozenset[str]
    mentioned: Sequence[tuple[object, type | None]]
    all_needs: frozenset[str] | None = None


_searched: dict[tuple[int, int], _Searched] = {}


def needs(item: pytest.Item, asks: bool = False) -> frozenset[str]:
    """Return what the test needs, of PROCESS, KAFKA and ORACLE; `asks` if recorded answers are asked for again."""
    if not isinstance(item, pytest.Function):
        return _NOTHING
    if "oracle" in item.fixturenames:  # it mentions the program that was recorded, and does not start it
        return frozenset((ORACLE, PROCESS)) if asks else frozenset((ORACLE,))
    found = set(_of_function(item))
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    for each in parameters:  # what `broker` is, or another fixture; or a function that starts something
        found |= PARAMETERS.get(each, _NOTHING) if isinstance(each, str) else _of(each, None)
    return frozenset(found)


def _of_function(item: pytest.Function) -> frozenset[str]:
    """Return what the test's code and its fixtures need, whatever its parameters are."""
    key = item.function, item.cls, tuple(item.fixturenames)
    if key not in _tests:
        found = set(_of(item.function, item.cls))
        if item.cls is not None:
            for name in ("setUp", "setUpClass", "setup_method", "setup_class", "tearDown"):
                found |= _of(getattr(item.cls, name, None), item.cls)
        for name in item.fixturenames:
            found |= FIXTURES[name] if name in FIXTURES else _of_fixture(item, name)
        _tests[key] = frozenset(found)
    return _tests[key]


def _of_fixture(item: pytest.Function, name: str) -> frozenset[str]:
    definitions = item._fixtureinfo.name2fixturedefs.get(name, ())
    return _NOTHING.union(*(_of(definition.func, item.cls) for definition in definitions))


def _of(thing: object, owner: type | None) -> frozenset[str]:
    """Return what a function or class needs; the names that it takes from `self` are looked up in `owner`."""
    key = (thing, owner) if isinstance(thing, FunctionType) else thing
    try:
        if key in _functions:
            return _functions[key]
    except TypeError:  # not hashable
        return _NOTHING
    found: set[str] = set()
    visited: dict[int, _Searched] = {}
    pending: list[tuple[object, type | None]] = [(thing, owner)]
    while pending:
        each, its_owner = pending.pop()
        if id(each) in visited:
            continue
        searched = visited[id(each)] = _search(each, its_owner)
        found |= searched.needs if searched.all_needs is None else searched.all_needs
        if searched.all_needs is None:
            pending += searched.mentioned
    _search(thing, owner).all_needs = _functions[key] = frozenset(found)
    if not found:  # nor do they need anything that were found on the way
        for searched in visited.values():
            searched.all_needs = _NOTHING
    return _functions[key]


def _search(thing: object, owner: type | None) -> _Searched:
    key = id(thing), id(owner)
    if key not in _searched:
        if _chooses(thing):
            _searched[key] = _Searched(thing, owner, frozenset((PROCESS,)), ())
        else:
            _searched[key] = _Searched(thing, owner, _directly(thing), tuple(_mentioned(thing, owner)))
    return _searched[key]


def _chooses(thing: object) -> bool:
    """True if a function or class starts a broker of either kind."""
    if not isinstance(thing, type | FunctionType):
        return False
    return thing.__module__ in CHOOSERS or f"{thing.__module__}.{thing.__qualname__}" in CHOOSERS


def _directly(thing: object) -> frozenset[str]:
    """Return what the object itself is, or does, without the objects that it mentions."""
    if isinstance(thing, ModuleType):
        return frozenset((PROCESS,)) if thing.__name__ in STARTERS else _NOTHING
    if isinstance(thing, type) and f"{thing.__module__}.{thing.__qualname__}" in KAFKA_CLASSES:
        return frozenset((PROCESS, KAFKA))
    if isinstance(thing, type | FunctionType) and thing.__module__ in STARTERS:
        return frozenset((PROCESS,))
    if isinstance(thing, FunctionType) and any(STARTING_NAMES & set(code.co_names) for code in _codes(thing.__code__)):
        return frozenset((PROCESS,))
    return _NOTHING


def _mentioned(thing: object, owner: type | None) -> Iterator[tuple[object, type | None]]:
    """Yield the objects that the code of a function or class mentions, each with the class that its `self` is of."""
    if isinstance(thing, FunctionType):
        wrapped = inspect.unwrap(thing)
        if wrapped is not thing:
            yield wrapped, owner
        if _is_searched(thing):
            yield from _mentioned_by_function(thing, owner)
    elif isinstance(thing, type):
        if _is_searched(thing):
            yield from ((each, thing) for base in thing.__mro__ if _is_searched(base) for each in vars(base).values())
    elif isinstance(thing, dict | list | tuple | set | frozenset):
        values: Iterable[object] = thing.values() if isinstance(thing, dict) else thing
        yield from ((each, owner) for each in values if callable(each))
    else:
        yield from ((each, owner) for each in _wrapped(thing))
        if _is_searched(type(thing)):
            yield type(thing), None


def _mentioned_by_function(function: FunctionType, owner: type | None) -> Iterator[tuple[object, type | None]]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents, owner
        except ValueError:  # not filled yet
            continue
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    yield from ((value, None) for value in defaults if callable(value))
    for code in _codes(function.__code__):
        modules = []
        for name in code.co_names:
            if (value := function.__globals__.get(name)) is not None:
                yield value, None
                modules += [value] if isinstance(value, ModuleType) else []
            if name in sys.modules and ("." in name or name in STARTERS):  # imported by the function itself
                modules.append(sys.modules[name])
                yield sys.modules[name], None
            if owner is not None and (method := _members(owner).get(name)) is not None:
                yield method, owner
        for module in modules:
            if _is_ours(module.__name__):
                yield from ((getattr(module, name, None), None) for name in code.co_names)


@cache
def _members(owner: type) -> Mapping[str, object]:
    """Return the attributes of a class and its bases, as `inspect.getattr_static` does, which takes long."""
    return {name: value for base in reversed(owner.__mro__) for name, value in vars(base).items()}


def _wrapped(thing: object) -> Iterator[object]:
    """Yield the function in a method, a partial function, a property or a click command."""
    if isinstance(thing, MethodType | staticmethod | classmethod):
        yield thing.__func__
    elif isinstance(thing, partial):
        yield thing.func
    elif isinstance(thing, property):
        yield thing.fget
    elif isinstance(thing, click.Command):
        yield thing.callback


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions, classes and comprehensions within."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_searched(thing: type | FunctionType) -> bool:
    return _is_ours(thing.__module__ or "")


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in SEARCHED
