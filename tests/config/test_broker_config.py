"""A broker's settings: layers, synonyms, warnings, errors, changes at run time."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from pylogbroker.config import BrokerConfig, ConfigSource, ConfigType, table, topic_config
from pylogbroker.config.access_settings import parse_super_users
from pylogbroker.config.value_kinds import render
from pylogbroker.errors import ConfigError

BROKER, CLUSTER = ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


def test_an_empty_file_gives_kafkas_defaults() -> None:
    config = BrokerConfig({})
    assert config.warnings == ()
    assert config.integer("num.partitions") == 1
    assert config.integer("log.retention.ms") == 7 * 24 * 3600 * 1000
    assert config.boolean("auto.create.topics.enable") is True
    assert config.text("compression.type") == "producer"
    assert config.texts("log.cleanup.policy") == ("delete",)
    assert config.number("log.cleaner.min.cleanable.ratio") == 0.5
    assert config.optional_text("broker.rack") is None


@pytest.mark.parametrize(
    ("static", "name", "value"),
    [
        ({"log.retention.hours": "2"}, "log.retention.ms", 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "log.retention.ms", 180_000),
        ({"log.retention.hours": "2", "log.retention.ms": "5"}, "log.retention.ms", 5),
        ({"log.retention.hours": "-1"}, "log.retention.ms", -1),
        ({"log.retention.hours": "2"}, "log.retention.minutes", 120),
        ({"log.roll.hours": "1"}, "log.roll.ms", 3_600_000),
        ({"log.roll.jitter.hours": "1"}, "log.roll.jitter.ms", 3_600_000),
        ({"log.flush.scheduler.interval.ms": "9"}, "log.flush.interval.ms", 9),
        ({"node.id": "4"}, "broker.id", 4),
        ({"node.id": "4", "broker.id": "4"}, "broker.id", 4),
        ({"log.dir": "/a"}, "log.dirs", "/a"),
    ],
)
def test_a_synonym_speaks_for_a_silent_setting(static: dict[str, str], name: str, value: object) -> None:
    assert BrokerConfig(static)[name] == value


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("num.partitions", "0", "a whole number from 1 to 10000"),
        ("log.retention.ms", "0", "a whole number from 1 to 9223372036854775807, or -1 for ever"),
        ("log.retention.hours", "0", "a whole number from 1 to 2147483647, or -1 for ever"),
        ("log.message.timestamp.type", "Created", "one of CreateTime, LogAppendTime"),
        ("log.cleanup.policy", "keep", "any of compact, delete, or nothing"),
        ("listeners", "127.0.0.1:9092", "NAME://host:port"),
        ("listeners", "PLAINTEXT://:99999", "0 to 65535"),
        ("listeners", "PLAINTEXT://:123456789012", "0 to 65535"),
        ("advertised.listeners", "PLAINTEXT://a:65536", "0 to 65535"),
        ("listeners", "A://:1,A://:2", "each name and port once"),
        ("sasl.enabled.mechanisms", "GSSAPI", "any of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ("listeners", "OTHER://:1", "a protocol for the listener OTHER"),
        ("listeners", "", "NAME://host:port"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:9092", "an address that clients can connect to"),
        ("advertised.listeners", "OTHER://a:9092", "not OTHER"),
        ("max.connections.per.ip.overrides", "a", "host:number"),
        ("log.message.format.version", "4.7-beta", "a Kafka release"),
        ("log.dirs", ",", "at least one directory"),
        ("log.dirs", "a,b,a", "each directory once"),
        ("group.min.session.timeout.ms", "2000000", "at most group.max.session.timeout.ms, 1800000"),
        ("log.cleaner.max.compaction.lag.ms", "0", "a whole number from 1"),
        ("replica.selector.class", "a.b.Selector", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
        ("broker.id", "1001", "at most reserved.broker.max.id, 1000"),
    ],
)
def test_a_bad_value_is_rejected_by_name_value_and_expectation(name: str, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({name: text})
    message = str(caught.value)
    assert expected in message
    assert "\n" not in message
    assert name in message or "listener.security.protocol.map" in message
    assert text in message or "listener.security.protocol.map" in message


def test_a_port_out_of_range_is_named() -> None:
    with pytest.raises(ConfigError) as rejected:
        BrokerConfig({"listeners": "PLAINTEXT://localhost:99999"})
    assert str(rejected.value) == (
        "listeners: 'PLAINTEXT://localhost:99999' is not accepted; port 99999 is out of range, expected 0 to 65535"
    )


def test_a_value_that_could_not_be_described_to_clients_is_rejected() -> None:
    assert BrokerConfig({"broker.rack": "r" * 32_767}).text("broker.rack") == "r" * 32_767
    with pytest.raises(ConfigError, match="32768 bytes is not accepted; expected at most 32767"):
        BrokerConfig({"broker.rack": "r" * 32_768})


def test_topic_settings_of_trials_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_config, "_KEPT_MAX", 20)
    config = BrokerConfig({})
    tried = ref(config.topic({"retention.ms": "1"}))
    for number in range(2, 25):
        config.topic({"retention.ms": str(number)})
    gc.collect()
    assert tried() is None


def test_settings_of_topics_that_contradict_each_other_are_rejected() -> None:
    with pytest.raises(ConfigError) as rejected:
        BrokerConfig({"log.cleaner.max.compaction.lag.ms": "5", "log.cleaner.min.compaction.lag.ms": "6"})
    assert str(rejected.value) == (
        "log.cleaner.min.compaction.lag.ms: 6 is not accepted; expected at most log.cleaner.max.compaction.lag.ms, 5"
    )


def test_a_broker_without_a_number_needs_to_make_one() -> None:
    with pytest.raises(ConfigError, match="none is generated"):
        BrokerConfig({"broker.id.generation.enable": "false"})


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("num.partition", "num.partition is not a setting, ignored; did you mean num.partitions?"),
        ("log.retention.hour", "log.retention.hour is not a setting, ignored; did you mean log.retention.hours?"),
        (
            "log.cleaner.min.cleanable.rati",
            "log.cleaner.min.cleanable.rati is not a setting, ignored; did you mean log.cleaner.min.cleanable.ratio?",
        ),
        ("xyzzy", "xyzzy is not a setting, ignored"),
        ("num.network.threads", "num.network.threads has no effect: one thread does all network work"),
        ("zookeeper.max.in.flight.requests", "{0} has no effect: connections to ZooKeeper do not use it"),
    ],
)
def test_settings_without_effect_are_warned_about(name: str, warning: str) -> None:
    assert BrokerConfig({name: "1"}).warnings == (warning.format(name),)


@pytest.mark.parametrize("cluster", [{}, {"zookeeper.connect": "localhost:2181"}])
def test_reasons_hold_in_a_cluster_and_without_one(cluster: dict[str, str]) -> None:
    (warning,) = BrokerConfig({"request.timeout.ms": "30000", **cluster}).warnings
    limits = "replica.socket.timeout.ms and controller.socket.timeout.ms limit requests between brokers"
    assert warning == f"request.timeout.ms has no effect: {limits}"
    reasons = [setting.no_effect for setting in table.BROKER.values()]
    assert [reason for reason in reasons if "embedded" in reason or "only one of its cluster" in reason] == []


@pytest.mark.parametrize("name", ["group.streams.assignors", "group.streams.assignor.offload.enable"])
def test_settings_of_later_releases_of_kafka_are_known(name: str) -> None:
    (warning,) = BrokerConfig({name: "true"}).warnings
    why = "the assignor of streams groups is built in, and topology descriptions are not kept"
    assert warning == f"{name} has no effect: {why}"


def test_two_numbers_for_one_broker_are_rejected() -> None:
    with pytest.raises(ConfigError, match=r"broker\.id: 3 is not accepted; expected the same as node\.id, 4"):
        BrokerConfig({"broker.id": "3", "node.id": "4"})


KRAFT = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
}


def test_listeners_of_controllers_are_not_opened() -> None:
    config = BrokerConfig(KRAFT)
    assert [(listener.name, listener.port) for listener in config.listeners] == [("PLAINTEXT", 9092)]
    assert any("process.roles has no effect: this broker is its own controller" in text for text in config.warnings)
    assert not config.in_cluster


def test_controllers_alone_are_no_broker() -> None:
    alone = KRAFT | {"listeners": "CONTROLLER://:9093", "advertised.listeners": ""}
    with pytest.raises(ConfigError, match=r"listeners: .* expected one that is not in controller\.listener\.names"):
        BrokerConfig(alone)


TEXTS = (ConfigType.STRING, ConfigType.CLASS, ConfigType.LIST, ConfigType.PASSWORD)


def test_unused_settings_of_kafka_are_not_misspelt() -> None:
    unused = [setting for setting in table.BROKER.values() if setting.no_effect]
    others = {setting.name: render(setting.default) or "" for setting in unused}
    others = {name: text for name, text in others.items() if text or table.BROKER[name].kind.type in TEXTS}
    warnings = BrokerConfig(others).warnings
    assert len(others) > 150
    assert [warning for warning in warnings if " has no effect: " not in warning] == []
    assert len(warnings) == len(others)


def test_a_value_without_effect_is_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"num\.network\.threads: '0' is not accepted; expected .* from 1 to "):
        BrokerConfig({"num.network.threads": "0"})


def test_protection_that_would_not_be_there_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"authorizer\.class\.name: 'com\.example\.Own' is not accepted"):
        BrokerConfig({"authorizer.class.name": "com.example.Own"})


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "kafka.security.authorizer.AclAuthorizer",
        "kafka.security.auth.SimpleAclAuthorizer",
    ],
)
def test_kafkas_authorizers_are_the_one_of_this_broker(name: str) -> None:
    config = BrokerConfig({"authorizer.class.name": name, "super.users": "User:a; User:CN=b,O=c;"})
    assert not config.warnings
    assert parse_super_users(config.text("super.users")) == {"User:a", "User:CN=b,O=c"}


def test_super_users_are_principals() -> None:
    with pytest.raises(ConfigError, match=r"super\.users: .* is not accepted; 'b' is no principal"):
        BrokerConfig({"super.users": "User:a;b"})


def test_asking_for_another_type_is_a_mistake() -> None:
    config = BrokerConfig({})
    for ask in (config.boolean, config.text, config.texts):
        with pytest.raises(TypeError, match=r"num\.partitions"):
            ask("num.partitions")
    for number in (config.integer, config.number):
        with pytest.raises(TypeError, match=r"delete\.topic\.enable"):
            number("delete.topic.enable")
    with pytest.raises(KeyError):
        config.integer("num.partition")


def test_a_listener_has_a_bound_and_an_advertised_address() -> None:
    config = BrokerConfig(
        {
            "listeners": "IN://:9092,OUT://[::1]:0",
            "advertised.listeners": "in://broker1:29092",
            "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
        }
    )
    inside, outside = config.listeners
    assert (inside.name, inside.host, inside.port) == ("IN", "", 9092)
    assert (inside.advertised_host, inside.advertised_port) == ("broker1", 29092)
    assert (outside.name, outside.host, outside.port) == ("OUT", "::1", 0)
    assert (outside.advertised_host, outside.advertised_port) == ("::1", 0)


def test_a_broker_on_every_interface_leaves_its_address_open() -> None:
    (listener,) = BrokerConfig({"listeners": "PLAINTEXT://0.0.0.0:9092"}).listeners
    assert listener.advertised_host == ""


def test_values_decided_at_start_count_as_static() -> None:
    config = BrokerConfig({"num.partitions": "3"})
    config.decide("broker.id", "1001")
    assert config.integer("broker.id") == 1001
    assert config.integer("num.partitions") == 3
    assert config.explicit(ConfigSource.STATIC_BROKER_CONFIG) == {"num.partitions": "3", "broker.id": "1001"}


def test_directories() -> None:
    config = BrokerConfig({"log.dirs": "/a, /b"})
    assert (config.log_dirs, config.metadata_dir) == (("/a", "/b"), "/a")
    assert BrokerConfig({"log.dirs": "/a", "metadata.log.dir": "/m"}).metadata_dir == "/m"


def test_limits_for_addresses() -> None:
    config = BrokerConfig({"max.connections.per.ip.overrides": "10.0.0.1:5,::1:7"})
    assert config.address_limits == {"10.0.0.1": 5, "::1": 7}


def test_the_protocol_between_brokers() -> None:
    assert str(BrokerConfig({}).inter_broker_protocol) == "3.9-IV0"
    assert str(BrokerConfig({"inter.broker.protocol.version": "2.7"}).inter_broker_protocol) == "2.7-IV2"
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({"inter.broker.protocol.version": "2.6-IV0"})
    assert str(caught.value) == (
        "inter.broker.protocol.version: '2.6-IV0' is not accepted; expected at least 2.7: upgrade the cluster's "
        "brokers, then set 2.7 or higher for all of them"
    )


class TestDynamic:
    """Changes while the broker runs."""

    def test_the_layers_hide_one_another(self) -> None:
        config = BrokerConfig({"log.segment.bytes": "100"})
        config.set_dynamic(CLUSTER, {"log.segment.bytes": "200"})
        assert config.integer("log.segment.bytes") == 200
        config.set_dynamic(BROKER, {"log.segment.bytes": "300"})
        assert config.integer("log.segment.bytes") == 300
        config.set_dynamic(BROKER, {})
        assert config.integer("log.segment.bytes") == 200
        config.set_dynamic(CLUSTER, {})
        assert config.integer("log.segment.bytes") == 100

    def test_topics_see_the_change(self) -> None:
        config = BrokerConfig({})
        config.set_dynamic(CLUSTER, {"log.retention.ms": "77"})
        assert config.topic({}).integer("retention.ms") == 77

    def test_observers_get_the_changed_names(self) -> None:
        config = BrokerConfig({"log.retention.hours": "1"})
        heard: list[frozenset[str]] = []
        config.observe(heard.append)
        config.set_dynamic(CLUSTER, {"log.retention.ms": "5"})
        config.set_dynamic(BROKER, {"log.retention.ms": "5"})
        assert heard == [{"log.retention.ms"}]

    @pytest.mark.parametrize(
        ("source", "name", "text", "why"),
        [
            (BROKER, "num.partitions", "3", "cannot be changed while the broker runs"),
            (BROKER, "nonsense", "3", "there is no such broker setting"),
            (CLUSTER, "log.segment.byte", "3", "did you mean log.segment.bytes"),
            (CLUSTER, "log.segment.bytes", "3", "a whole number from 14"),
            (CLUSTER, "log.segment.bytes", None, "no value"),
            (CLUSTER, "num.network.threads", "many", "num.network.threads: 'many' is not accepted; expected a whole"),
            (CLUSTER, "sasl.kerberos.min.time.before.relogin", "1", "for one broker only"),
            (BROKER, "sasl.kerberos.min.time.before.relogins", "1", "mean sasl.kerberos.min.time.before.relogin[?]"),
            (BROKER, "listener.name.plaintext.log.segment.bytes", "50", "there is no such broker setting"),
            (BROKER, "ssl.keystore.location", "x", "set listener.name.<listener in lower case>.ssl.keystore.location"),
            (BROKER, "listener.name.ssl.ssl.client.auth", "yes", "'yes' is not accepted; expected one of none"),
            (CLUSTER, "listener.name.ssl.ssl.client.auth", "none", "for one broker only"),
            (BROKER, "zookeeper.connect", "host", "cannot be changed while the broker runs"),
            (CLUSTER, "log.cleaner.min.compaction.lag.ms", str(2**63 - 1), None),
        ],
    )
    def test_a_change_is_checked(self, source: ConfigSource, name: str, text: str | None, why: str | None) -> None:
        config = BrokerConfig({"log.cleaner.max.compaction.lag.ms": "9"})
        with pytest.raises(ConfigError, match=why or "min.compaction.lag.ms"):
            config.check_dynamic(source, {name: text})

    def test_a_good_change_passes_and_is_not_yet_in_force(self) -> None:
        config = BrokerConfig({})
        assert config.check_dynamic(CLUSTER, {"log.segment.bytes": "50"}) == {"log.segment.bytes": "50"}
        assert config.integer("log.segment.bytes") == 2**30

    @pytest.mark.parametrize(
        ("source", "name", "text"),
        [
            (BROKER, "sasl.kerberos.min.time.before.relogin", "60001"),
            (CLUSTER, "num.network.threads", "4"),
            (CLUSTER, "remote.log.manager.expiration.thread.pool.size", "4"),
            (BROKER, "listener.name.plaintext.ssl.key.password", "secret"),
        ],
    )
    def test_a_change_without_effect_is_accepted(self, source: ConfigSource, name: str, text: str) -> None:
        config = BrokerConfig({})
        checked = config.check_dynamic(source, {name: text})
        config.set_dynamic(source, checked)
        assert config.explicit(source) == {name: text}

    def test_stored_invalid_settings_do_not_prevent_a_start(self) -> None:
        config = BrokerConfig({})
        config.set_dynamic(CLUSTER, {"gone.setting": "1", "log.segment.bytes": "no", "log.preallocate": "true"})
        assert config.explicit(CLUSTER) == {"log.preallocate": "true"}


class TestReload:
    """The file is read again while the broker runs."""

    def test_dynamic_settings_change_and_the_others_wait(self) -> None:
        config = BrokerConfig({"log.retention.ms": "1000", "num.partitions": "1", "max.connections": "5"})
        reported: list[frozenset[str]] = []
        config.observe(reported.append)
        reloaded = config.reload({"log.retention.ms": "2000", "num.partitions": "2", "log.dirs": "other"})
        assert reloaded.changes == {"log.retention.ms": (1000, 2000), "max.connections": (5, 2**31 - 1)}
        assert reloaded.postponed == ("log.dirs", "num.partitions")
        assert config.integer("num.partitions") == 1
        assert config.topic({}).integer("retention.ms") == 2000
        assert reported == [frozenset({"log.retention.ms", "max.connections"})]
        again = config.reload({"log.retention.ms": "2000", "num.partitions": "1"})
        assert (again.changes, again.postponed) == ({}, ())
        assert len(reported) == 1

    def test_a_number_that_was_decided_stays(self) -> None:
        config = BrokerConfig({})
        config.decide("broker.id", "1001")
        assert config.reload({}).postponed == ()
        assert config.integer("broker.id") == 1001
        assert config.reload({"broker.id": "5"}).postponed == ("broker.id",)

    @pytest.mark.parametrize("bad", [{"max.connections": "many"}, {"log.dirs": " "}])
    def test_a_reload_that_could_not_start_changes_nothing(self, bad: dict[str, str]) -> None:
        config = BrokerConfig({"log.retention.ms": "1000"})
        with pytest.raises(ConfigError):
            config.reload({"log.retention.ms": "2000"} | bad)
        assert config.integer("log.retention.ms") == 1000

    def test_a_reload_that_a_plugin_rejects_changes_nothing(self) -> None:
        def reject(*settings: object) -> None:
            raise ConfigError("not so")

        config = BrokerConfig({"log.retention.ms": "1000"})
        config.add_topic_check(reject)
        with pytest.raises(ConfigError, match="not so"):
            config.reload({"log.retention.ms": "2000"})
        assert config.integer("log.retention.ms") == 1000

    def test_a_value_that_a_client_set_counts(self) -> None:
        config = BrokerConfig({"log.retention.ms": "1000"})
        config.set_dynamic(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, {"log.retention.ms": "5"})
        reloaded = config.reload({"log.retention.ms": "2000"})
        assert (reloaded.changes, reloaded.overridden) == ({}, ("log.retention.ms",))
        config.set_dynamic(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, {})
        assert config.integer("log.retention.ms") == 2000

    def test_warnings_that_are_new(self) -> None:
        config = BrokerConfig({"no.such": "1"})
        assert len(config.reload({"no.such": "1", "nor.such": "1"}).warnings) == 1
