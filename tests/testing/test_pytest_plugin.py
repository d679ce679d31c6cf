"""The plugin for pytest, in runs of pytest within the test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path

import pytest

import pylogbroker.client.sync
import pylogbroker.security.tls.authority
import pylogbroker.testing.admin
import pylogbroker.testing.handle  # noqa: F401  imported here: each inner run would import them again
from pylogbroker.testing import Broker

Run = Callable[..., pytest.RunResult]
pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the same module may be installed

    def run(text: str, *options: str, **outcomes: int) -> pytest.RunResult:
        pytester.makepyfile(test_it=text)
        result = pytester.runpytest_inprocess("-p", "pylogbroker.testing.pytest_plugin", *options)
        result.assert_outcomes(**outcomes)
        return result

    return run


def test_fixtures(run: Run) -> None:
    run(
        """
        def test_records(kafka, kafka_topic, kafka_producer, kafka_consumer, kafka_bootstrap):
            kafka_producer.produce(kafka_topic, b"value")
            kafka_producer.flush()
            assert kafka_consumer.poll(120).value() == b"value"
            assert [each.value for each in kafka.records(kafka_topic)] == [b"value"]
            assert kafka.bootstrap == kafka_bootstrap

        def test_nothing_is_left(kafka, kafka_broker_proc):
            assert kafka_broker_proc.topics == {}
            assert kafka_broker_proc.groups == []
            assert kafka.broker is kafka_broker_proc
        """,
        passed=2,
    )


def test_topics_by_name(run: Run) -> None:
    run(
        """
        import pytest
        from pylogbroker.errors import ConfigError

        def test_names(kafka):
            assert kafka.topic("orders") == "orders"
            assert kafka.topic("bills", 3, retention_ms=-1) == "bills"
            other = kafka.topic(partitions=2)
            assert kafka.broker.topics == {"orders": 1, "bills": 3, other: 2}

        def test_a_number_is_no_name(kafka):
            with pytest.raises(ConfigError, match="name: 3 is not accepted"):
                kafka.topic(3)
        """,
        passed=2,
    )


def test_clients_of_users(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    run(
        """
        import pytest

        @pytest.mark.kafka_broker(
            users={"alice": "secret", "bob": "other"}, acls=["bob write topic:orders", "alice read topic:orders"]
        )
        def test_users(kafka):
            kafka.topic("orders")
            errors = []
            for user in None, "alice", "bob":
                producer = kafka.producer(user=user)
                producer.produce("orders", b"tea", on_delivery=lambda error, _: errors.append(error))
                producer.flush(120)
            assert [error and error.name() for error in errors] == ["TOPIC_AUTHORIZATION_FAILED"] * 2 + [None]
        """,
        passed=1,
    )
    assert "can be read by every user" not in caplog.text


@pytest.mark.parametrize("library", ["kafka-python", "pylogbroker"])
def test_other_libraries(run: Run, library: str) -> None:
    run(
        """
        def test_records(kafka_topic, kafka_producer, kafka_consumer):
            kafka_producer.send(kafka_topic, b"value")
            assert next(kafka_consumer).value == b"value"
        """,
        f"--kafka-client={library}",
        passed=1,
    )


def test_aiokafka(run: Run) -> None:
    run(
        """
        import asyncio, pytest

        async def round_trip(topic, producer, consumer):
            async with producer as started:
                await started.send_and_wait(topic, b"value")
            async with consumer as started:
                assert (await started.getone()).value == b"value"

        def test_records(kafka_topic, kafka_producer, kafka_consumer):
            asyncio.run(round_trip(kafka_topic, kafka_producer, kafka_consumer))

        @pytest.mark.kafka_broker(users={"alice": "secret"}, tls=True)
        def test_with_a_password(kafka_topic, kafka_producer, kafka_consumer):
            asyncio.run(round_trip(kafka_topic, kafka_producer, kafka_consumer))
        """,
        "--kafka-client=aiokafka",
        passed=2,
    )


def test_a_password_with_kafka_python(run: Run) -> None:
    run(
        """
        import pytest

        @pytest.mark.kafka_broker(users={"alice": "secret"}, tls=True)
        def test_records(kafka_topic, kafka_producer, kafka_consumer):
            kafka_producer.send(kafka_topic, b"value")
            assert next(kafka_consumer).value == b"value"
        """,
        "--kafka-client=kafka-python",
        passed=1,
    )


def test_a_schema_registry(run: Run) -> None:
    program = """
        import pytest
        from urllib.request import urlopen

        {marker}
        def test_subjects(kafka_schema_registry):
            assert urlopen(kafka_schema_registry + "/subjects").read() == b"[]"
        """
    run(program.format(marker=""), "--kafka-schema-registry", passed=1)
    run(program.format(marker="@pytest.mark.kafka_broker(schema_registry=True)"), passed=1)
    result = run(program.format(marker=""), errors=1)
    result.stdout.fnmatch_lines(["*schema_registry=True*"])


def test_leftovers_of_tests_are_reported(run: Run) -> None:
    result = run(
        """
        import pytest
        from confluent_kafka import Producer

        @pytest.fixture(scope="session")
        def shared_topic(kafka_broker_proc):
            return kafka_broker_proc.create_topic("shared")

        def test_a_transaction(shared_topic, kafka):
            producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "left-open"})
            producer.init_transactions()
            producer.begin_transaction()
            producer.produce(kafka.topic("own"), b"value")
            producer.flush()

        def test_topics(kafka):
            assert kafka.broker.topics == {"shared": 1}
        """,
        passed=2,
        warnings=1,
    )
    result.stdout.fnmatch_lines(["*transaction left-open is open after the test*"])


def test_faults(run: Run) -> None:
    result = run(
        """
        import pytest

        def test_error(kafka):
            kafka.faults.add(api="Metadata", error="UNKNOWN_SERVER_ERROR", times=None)
            assert kafka.consumer("missing").consume(1, 120)[0].error() is not None

        def test_they_are_gone(kafka):
            assert kafka.broker.topics == {}

        def test_not_fired(kafka):
            kafka.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", must_fire=True)
        """,
        passed=3,
        errors=1,
    )
    result.stdout.fnmatch_lines(["*FaultNotFired*"])


def test_a_broker_that_is_left_down(run: Run) -> None:
    run(
        """
        def test_down(kafka):
            kafka.topic()
            kafka.broker.down()

        def test_it_is_up(kafka):
            assert kafka.broker.topics == {}
        """,
        passed=2,
    )


def test_settings(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_settings =\n    num.partitions = 3\n    log.retention.ms=5000\n")
    run(
        """
        import pytest
        from pylogbroker.testing import factories

        other_broker = factories.broker_proc(num_partitions=5)
        other_kafka = factories.kafka("other_broker")

        def partitions(kafka):
            kafka.topic("by-default", -1)
            return kafka.broker.topics["by-default"]

        def test_ini_and_flag(kafka):
            assert partitions(kafka) == 4

        def test_factory(other_kafka):
            assert partitions(other_kafka) == 5

        @pytest.mark.kafka_broker(num_partitions=6)
        def test_marker(kafka, kafka_broker_proc):
            assert partitions(kafka) == 6
            assert kafka_broker_proc.topics == {}

        @pytest.mark.kafka_broker(brokers=3)
        def test_cluster(kafka):
            kafka.topic(replication_factor=3)
        """,
        "--kafka-setting=num.partitions=4",
        "--strict-markers",
        passed=4,
    )


def test_settings_are_merged(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_settings =\n    default.replication.factor = 1\n    num.partitions = 2\n")
    run(
        """
        import pytest
        from pylogbroker.testing import factories

        by_keyword = factories.broker_proc(settings={"default.replication.factor": 3}, brokers=3)
        by_keyword_kafka = factories.kafka("by_keyword")
        by_position = factories.broker_proc({"num_partitions": 5})
        by_position_kafka = factories.kafka("by_position")

        def check(kafka, setting, partitions):
            topic = kafka.topic(partitions=-1)
            assert kafka.broker.topics[topic] == partitions
            assert kafka.broker.faults.broker.config.integer("default.replication.factor") == setting

        def test_factories(by_keyword_kafka, by_position_kafka):
            check(by_keyword_kafka, 3, 2)
            check(by_position_kafka, 1, 5)

        @pytest.mark.kafka_broker({"num.partitions": 3})
        def test_by_position(kafka):
            check(kafka, 1, 3)

        @pytest.mark.kafka_broker(settings={"num.partitions": 4}, log_retention_ms=5000)
        def test_by_keyword(kafka):
            check(kafka, 1, 4)

        @pytest.mark.kafka_broker({"default.replication.factor": 1})
        def test_of_the_file(kafka):
            check(kafka, 1, 2)
        """,
        passed=4,
    )


CLUSTER = """
    def test_brokers(kafka):
        assert len(kafka.bootstrap.split(",")) == 2
    """


def test_a_cluster_by_flag(run: Run) -> None:
    run(CLUSTER, "--kafka-brokers", "2", passed=1)


def test_a_cluster_by_ini_file(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_brokers = 2\n")
    run(CLUSTER, passed=1)
    run(CLUSTER, "--kafka-brokers=1", failed=1)  # a flag comes first


def test_library_and_address_of_the_ini_file(run: Run, pytester: pytest.Pytester) -> None:
    with Broker() as broker:
        pytester.makeini(f"[pytest]\nkafka_client = kafka-python\nkafka_bootstrap = {broker.bootstrap}\n")
        run(
            f"""
            def test_library(kafka, kafka_producer):
                assert type(kafka_producer).__module__.startswith("kafka.")
                assert kafka.bootstrap == "{broker.bootstrap}"
            """,
            passed=1,
        )


def test_workers_have_brokers_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pathlib\n"
        "def test_broker(kafka, worker_id):\n"
        "    assert kafka.broker.topics == {}\n"
        "    kafka.topic('same')\n"
        f"    pathlib.Path({str(tmp_path)!r}, worker_id).write_text(kafka.bootstrap)\n"
    )
    plugins = ["-p", "xdist", "-p", "pylogbroker.testing.pytest_plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-n", "2", "--dist", "each", str(tmp_path)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = ((tmp_path / worker).read_text() for worker in ("gw0", "gw1"))
    assert first != second


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("--kafka-setting=x", "*'x' is not accepted; expected name=value"),
        ("--kafka-brokers=0", "*'0' is not accepted*"),
    ],
)
def test_bad_options(run: Run, option: str, line: str) -> None:
    result = run("def test_broker(kafka): pass", option, errors=1)
    result.stdout.fnmatch_lines([line])


def test_a_kafka_that_runs_elsewhere(run: Run) -> None:
    with Broker() as broker:
        broker.create_topic("of-others")
        broker.produce("of-others", "value")
        run(
            """
            import pytest

            def test_records(kafka):
                topic = kafka.topic()
                kafka.produce(topic, "value")
                kafka.consumer(topic, group=kafka.new_name("group")).consume(1, 120)
                assert len(kafka.records(topic)) == 1

            def test_registry(kafka_schema_registry):
                pass

            def test_faults(kafka):
                kafka.faults

            def test_time(kafka):
                kafka.clock

            def test_requests(kafka):
                kafka.requests

            def test_requests_of_the_broker(kafka):
                kafka.broker.requests

            @pytest.mark.kafka_broker(num_partitions=6)
            def test_marker(kafka):
                pass
            """,
            f"--kafka-bootstrap={broker.bootstrap}",
            passed=1,
            skipped=6,
        )
        assert (broker.topics, broker.groups) == ({"of-others": 1}, [])


def test_a_secured_kafka_that_runs_elsewhere(run: Run, pytester: pytest.Pytester) -> None:
    with Broker(users={"alice": "secret", "bob": "other"}, tls=True, acls=["alice all topic:*"]) as broker:
        lines = [f"{name}={value}" for name, value in broker.client_settings("alice").items()][1:]
        pytester.makeini("[pytest]\nkafka_client_settings =\n" + "".join(f"    {line}\n" for line in lines[:-1]))
        run(
            """
            from pylogbroker.testing import factories

            as_alice = factories.broker_noproc({bootstrap!r}, {settings!r})
            of_alice = factories.kafka(noproc="as_alice")

            def test_records(kafka):
                topic = kafka.topic()
                kafka.producer().produce(topic, b"value")
                kafka.consumer(topic)

            def test_records_of_a_factory(of_alice):
                of_alice.topic()
                assert of_alice.bootstrap == {bootstrap!r}
            """.replace("{bootstrap!r}", repr(broker.bootstrap)).replace(
                "{settings!r}", repr(broker.client_settings("alice"))
            ),
            f"--kafka-bootstrap={broker.bootstrap}",
            f"--kafka-client-setting={lines[-1]}",
            passed=2,
        )
        assert {seen.principal for seen in broker.requests.of("CreateTopics")} == {"User:alice"}


def test_without_an_address(run: Run) -> None:
    result = run("def test_it(kafka_broker_noproc): pass", errors=1)
    result.stdout.fnmatch_lines(["*name a running Kafka with --kafka-bootstrap HOST:PORT*"])


def test_a_closed_port_fails_all_tests_at_once(run: Run) -> None:
    tests = "def test_one(kafka): pass\ndef test_two(kafka): pass"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    result = run(tests, f"--kafka-bootstrap=127.0.0.1:{port}", errors=2)
    result.stdout.fnmatch_lines([f"*--kafka-bootstrap 127.0.0.1:{port}: cannot connect to 127.0.0.1:{port}:*for 2 s*"])


def test_the_plugin_is_registered_and_cheap() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    name, _, module = setup["options.entry_points"]["pytest11"].strip().partition(" = ")
    assert (name, module) == ("pylogbroker", "pylogbroker.testing.pytest_plugin")
    program = f"import sys, pytest, {module}; print(*(each for each in sys.modules if 'pylogbroker' in each))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    below = ["", ".features", ".java", ".java.text", ".lazy_names"]
    below += [".testing", ".testing.factories", ".testing.options", ".testing.pytest_plugin"]
    assert sorted(done.stdout.split()) == [f"pylogbroker{each}" for each in below]
