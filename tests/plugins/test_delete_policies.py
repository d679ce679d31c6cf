"""The built-in delete policies, and how policies are found and named."""

from __future__ import annotations

import os
import re

import pytest
from twisted.logger import LogEvent, globalLogPublisher
from zope.interface import implementer
from zope.interface.verify import verifyObject

from pylogbroker.broker.partitions.delete_policies import DeletePolicies
from pylogbroker.config import BrokerConfig, TopicConfig
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import IDeletePolicy, IDeletePolicyFactory, LogView, SegmentView
from pylogbroker.named_plugins import Installed
from pylogbroker.plugins import delete_policies as built_in
from pylogbroker.plugins.delete_policies import BuiltIn, ModificationTimePolicy, RecordTimePolicy, SizePolicy
from pylogbroker.tap import plugins
from tests.broker.log_lines import logged_lines
from tests.support.plugin_modules import Put


def view(number: int, timestamp: int = 0, size: int = 100, modified: int = 0) -> SegmentView:
    return SegmentView(10 * number, 10 * number + 10, size, timestamp, modified, active=False)


@pytest.mark.parametrize(
    ("retention", "timestamps", "gone"),
    [
        (10, [0, 5, 9, 20], 3),
        (10, [0, 10, 0, 20], 1),  # a young segment protects what follows
        (-1, [0, 0, 0, 0], 0),
        (0, [0, 5, 19, 19], 4),
        (10, [-1, -1, 15, 15], 2),  # without timestamps the file's own time counts
    ],
)
def test_by_record_time(retention: int, timestamps: list[int], gone: int) -> None:
    views = tuple(view(number, timestamp, modified=3) for number, timestamp in enumerate(timestamps))
    assert tuple(RecordTimePolicy(retention).deletable(LogView("t", 0, views), 20)) == views[:gone]


@pytest.mark.parametrize(
    ("retention", "modified", "gone"),
    [(10, [0, 5, 9, 20], 3), (10, [0, 10, 0, 20], 1), (-1, [0, 0, 0, 0], 0), (0, [0, 5, 19, 19], 4)],
)
def test_by_modification_time(retention: int, modified: list[int], gone: int) -> None:
    views = tuple(view(number, timestamp=1000 - number, modified=time) for number, time in enumerate(modified))
    assert tuple(ModificationTimePolicy(retention).deletable(LogView("t", 0, views), 20)) == views[:gone]


@pytest.mark.parametrize(("retention", "gone"), [(-1, 0), (1000, 0), (400, 0), (399, 0), (300, 1), (250, 1), (0, 4)])
def test_by_size(retention: int, gone: int) -> None:
    views = tuple(view(number) for number in range(4))
    assert tuple(SizePolicy(retention).deletable(LogView("t", 0, views), 0)) == views[:gone]


@pytest.mark.parametrize("factory", [built_in.record_time, built_in.modification_time, built_in.size])
def test_factories_provide_their_interfaces(factory: BuiltIn) -> None:
    settings = {"retention.ms": 5, "retention.bytes": 5}
    verifyObject(IDeletePolicyFactory, factory)
    verifyObject(IDeletePolicy, factory.make("", settings))
    with pytest.raises(ValueError, match="no argument"):
        factory.make("5", settings)


def topic(**overrides: str) -> TopicConfig:
    return BrokerConfig({}).topic({name.replace("_", "."): text for name, text in overrides.items()})


def made(policies: DeletePolicies, settings: TopicConfig) -> tuple[list[int], list[str]]:
    """Return how many of four segments of 100 bytes and the ages 40, 30, 20, 10 each policy deletes, and the errors."""
    views = tuple(view(number, timestamp=1000 - 40 + 10 * number) for number in range(4))
    logged: list[str] = []
    found = policies.of(settings, lambda error: logged.append(str(error)))
    return [policy.run(LogView("t", 0, views), 1000) for policy in found], logged


def test_topics_choose_by_name() -> None:
    policies = plugins.delete_policies()
    assert made(policies, topic(retention_ms="25", retention_bytes="100")) == ([2, 3], [])
    assert made(policies, topic(retention_ms="25", retention_bytes="100", delete_policies="size")) == ([3], [])
    assert made(policies, topic(retention_ms="25", delete_policies="modification-time")) == ([4], [])
    assert made(policies, topic(retention_ms="25", delete_policies="")) == ([], [])
    assert made(policies, topic(retention_ms="25", cleanup_policy="compact")) == ([], [])


REJECTED = {
    "recordtime": "delete.policies: 'recordtime' is not accepted; expected any of "
    "archive-parquet, modification-time, record-time, size; no others are installed",
    "size:3": "delete.policies: 'size:3' is not accepted; "
    "size takes no argument; it follows the setting retention.bytes",
}


@pytest.mark.parametrize("text", REJECTED)
def test_invalid_policies_are_rejected(text: str) -> None:
    policies, settings = plugins.delete_policies(), topic(delete_policies=f"record-time,{text}", retention_ms="25")
    with pytest.raises(ConfigError) as rejected:
        policies.check(settings, settings.overrides)
    assert str(rejected.value) == REJECTED[text]
    assert made(policies, settings) == ([2], [REJECTED[text]])  # the others delete what they delete


@implementer(IDeletePolicyFactory)
class Careless:
    """A plugin with mistakes."""

    name = "careless"

    def make(self, argument: str, settings: dict[str, object]) -> object:
        if argument == "raise":
            raise RuntimeError("oh")
        settings["retention.ms"] = 0
        return object()


@implementer(IDeletePolicyFactory)
class MakesNothing:
    name = "careless"

    def make(self, argument: str, settings: dict[str, object]) -> None:
        return None


@implementer(IDeletePolicy)
class Oldest:
    """Deletes the oldest segment; it needs no factory."""

    def deletable(self, log: LogView, now_ms: int) -> tuple[SegmentView, ...]:
        return log.segments[:1]


@implementer(IDeletePolicy)
class WithoutTime:
    def deletable(self, log: LogView) -> tuple[SegmentView, ...]:
        return log.segments[:1]


def test_a_policy_without_a_factory() -> None:
    policies = DeletePolicies(Installed({"oldest": Oldest(), "without-time": WithoutTime()}))
    settings = topic(delete_policies="oldest")
    policies.check(settings, settings.overrides)
    assert made(policies, settings) == ([1], [])
    for text, why in ("oldest:3", "oldest takes no argument"), ("without-time", "doesn't allow enough arguments"):
        settings = topic(delete_policies=text)
        with pytest.raises(ConfigError, match=why):
            policies.check(settings, settings.overrides)


def test_mistakes_of_a_plugin_are_reported_as_such() -> None:
    policies = DeletePolicies(Installed({"careless": Careless()}))
    for argument, what in ("raise", r"RuntimeError\('oh'\)"), ("", "TypeError"):
        settings = topic(delete_policies=f"careless:{argument}")
        with pytest.raises(ConfigError, match=what):
            policies.check(settings, settings.overrides)
    policies = DeletePolicies(Installed({"careless": MakesNothing()}))
    with pytest.raises(ConfigError, match="Does not declaratively implement"):
        policies.check(topic(delete_policies="careless"), ["delete.policies"])


def test_a_policy_is_named_once() -> None:
    policies, settings = plugins.delete_policies(), topic(delete_policies="size, record-time,size")
    with pytest.raises(ConfigError) as rejected:
        policies.check(settings, settings.overrides)
    assert str(rejected.value) == (
        "delete.policies: 'size,record-time,size' is not accepted; expected each policy once"
    )
    policies.check(settings, settings.overrides, before=settings)
    kept = BrokerConfig({"log.delete.policies": "size,size"}).topic({})
    with pytest.raises(ConfigError, match=r"^log\.delete\.policies: 'size,size' is not accepted"):
        policies.check(kept)


def named(*names: object) -> str:
    """A module with factories of these names."""
    made = [f"made_{number} = BuiltIn({name!r}, 'retention.bytes', SizePolicy)" for number, name in enumerate(names)]
    return "\n".join(["from pylogbroker.plugins.delete_policies import BuiltIn, SizePolicy", *made])


def installed() -> list[str]:
    return sorted(plugins.delete_policies()._installed.plugins)


BUILT_IN = ["archive-parquet", "modification-time", "record-time", "size"]


@pytest.mark.parametrize("name", ["a,b", "a:b", "", "Mine", "my policy", "müll", "a_b", None, 7])
def test_a_name_that_settings_could_not_say_is_left_out(put: Put, name: object) -> None:
    put("ill_named", named(name, "well-named-2"))
    with logged_lines() as lines:
        assert installed() == [*BUILT_IN, "well-named-2"]
    assert lines == [
        "ignored the delete policy pylogbroker.plugins.ill_named.made_0: "
        f"its name, {name!r}, must be made of a-z, 0-9 and -"
    ]


def test_a_built_in_keeps_its_name(put: Put) -> None:
    put("imitation", named("size", "other"))
    with logged_lines() as lines:
        found = plugins.delete_policies()
    assert sorted(found._installed.plugins) == sorted([*BUILT_IN, "other"])
    assert found._installed.plugins["size"] is built_in.size
    assert lines == ["ignored pylogbroker.plugins.imitation.made_0: size is the name of a built-in delete policy"]


def test_a_name_claimed_by_two_plugins_is_ignored(put: Put) -> None:
    put("one", named("mine", "yours"))
    put("another", named("mine"))
    with logged_lines() as lines:
        assert installed() == [*BUILT_IN, "yours"]
    [line] = lines
    assert re.fullmatch(
        r"ignored (?:(?:, )?pylogbroker\.plugins\.(?:one|another)\.made_0){2}: "
        "more than one delete policy is named mine",
        line,
    )


def test_the_error_for_an_ignored_name_says_why(put: Put) -> None:
    put("one", named("mine"))
    put("another", named("mine", "Yours"))
    for text, why in ("mine", "more than one delete policy is named mine"), ("Yours", "must be made of a-z, 0-9 and -"):
        settings = topic(delete_policies=text)
        with pytest.raises(ConfigError, match=f"expected any of .*size; ignored .*{why}$"):
            plugins.delete_policies().check(settings, settings.overrides)


def test_a_plugin_that_stopped_loading_logs_one_traceback_at_most(put: Put) -> None:
    put("worked", named("one", "two", "three"))
    assert installed() == sorted([*BUILT_IN, "one", "two", "three"])
    events: list[LogEvent] = []
    for age in (100, -100):  # the module is older than what was remembered of it, as if a dependency were gone; newer
        path = put("worked", "import no_such_package_at_all")
        cache = path.with_name("dropin.cache").stat().st_mtime
        os.utime(path, (cache - age, cache - age))
        events.clear()
        globalLogPublisher.addObserver(events.append)
        with logged_lines() as lines:
            assert installed() == BUILT_IN
        globalLogPublisher.removeObserver(events.append)
        assert len([event for event in events if "log_failure" in event]) <= 1
        [line] = [line for line in lines if "ignored" in line]
        assert "pylogbroker.plugins.worked" in line
        assert "no_such_package_at_all" in line
