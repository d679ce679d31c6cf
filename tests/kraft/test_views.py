"""Views of a member and of its controllers: the command, the web UI and the metrics."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from pylogbroker.cli import main
from pylogbroker.errors import ErrorCode
from pylogbroker.testing import Broker
from pylogbroker.wire.messages.broker_registration import BrokerRegistrationRequest
from pylogbroker.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pylogbroker.wire.messages.describe_quorum import QuorumReplica
from pylogbroker.wire.messages.list_config_resources import ListConfigResourcesRequest
from pylogbroker.wire.metadata_records import ConfigRecord, UnregisterBrokerRecord
from tests.broker.security.answers import asking
from tests.kraft.model_controller import CONTROLLER_ID, ModelController
from tests.kraft.model_state import registration_record
from tests.kraft.served import ServedController, served_controller
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def served() -> Iterator[ServedController]:
    with served_controller() as controller:
        yield controller


def joined(served: ServedController, **settings: Any) -> Broker:
    return Broker(
        engine="kraft",
        controller_quorum_bootstrap_servers=served.address,
        node_id=7,
        http_listeners="http://127.0.0.1:0",
        **settings,
    )


@pytest.fixture(scope="module")
def broker(served: ServedController) -> Iterator[Broker]:
    served.call(lambda controller: controller.observers.append(QuorumReplica(7, log_end_offset=3)))
    with joined(served) as made:
        yield made


def run(broker: Broker, *arguments: str) -> Any:
    done = CliRunner().invoke(main, [*arguments, "--bootstrap-server", broker.bootstrap, "--format", "json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def page(broker: Broker, path: str) -> str:
    [service] = broker._runner._brokers.services
    [address] = service.http_addresses
    with urllib.request.urlopen(f"http://{address.host}:{address.port}{path}", timeout=60) as answer:
        return answer.read().decode()


def test_the_command_shows_the_quorum(broker: Broker) -> None:
    quorum = run(broker, "cluster", "quorum")
    assert quorum["leader"] == CONTROLLER_ID
    assert quorum["leader_epoch"] == 1
    [leader, observer] = quorum["members"]
    assert (leader["node"], leader["role"], leader["lag"]) == (CONTROLLER_ID, "leader", 0)
    assert leader["log_end_offset"] == quorum["high_watermark"]
    assert (observer["node"], observer["role"]) == (7, "observer")
    assert observer["lag"] == leader["log_end_offset"] - 3
    table = CliRunner().invoke(main, ["cluster", "quorum", "--bootstrap-server", broker.bootstrap]).stdout
    assert table.splitlines()[1].split()[:2] == [str(CONTROLLER_ID), "leader"]


def test_subscriptions_to_metrics_of_clients_are_listed(served: ServedController, broker: Broker) -> None:
    """Kafka 3.9 asks in version 0, which is about nothing else."""
    served.call(lambda controller: controller.append(ConfigRecord(16, "slow", "interval.ms", "7")))
    with asking(int(broker.bootstrap.rpartition(":")[2])) as ask:

        def listed(*types: int, version: int = 1) -> list[tuple[str, int]]:
            answer = ask("127.0.0.1", ListConfigResourcesRequest(list(types)), version)
            return [(resource.resource_name, resource.resource_type) for resource in answer.config_resources]

        wait_until(lambda: listed(16) == [("slow", 16)])
        assert listed(version=0) == [("slow", 16)]
        assert ("slow", 16) not in listed(2, 4)
        request = DescribeConfigsRequest([DescribeConfigsResource(16, "slow", None)])
        [result] = ask("127.0.0.1", request, 4).results
        assert [(row.name, row.value, row.config_source) for row in result.configs] == [("interval.ms", "7", 7)]
        request = DescribeConfigsRequest([DescribeConfigsResource(16, "", None)])
        assert ask("127.0.0.1", request, 4).results[0].error_code == ErrorCode.INVALID_REQUEST


def test_no_broker_is_shown_as_the_controller(broker: Broker) -> None:
    info = run(broker, "cluster", "info")
    assert info["controller"] == CONTROLLER_ID
    assert [(row["broker"], row["controller"]) for row in info["brokers"]] == [(7, False)]
    assert run(broker, "cluster", "describe")["controller"] == CONTROLLER_ID
    assert [row["controller"] for row in run(broker, "broker", "describe")] == [False]
    assert run(broker, "cluster", "health")["controller"] == CONTROLLER_ID


def test_brokers_are_described_with_their_membership(served: ServedController, broker: Broker) -> None:
    """One that is fenced is not asked for the rest."""
    gone = registration_record(served.call(lambda controller: last_registration(controller)), 0)
    gone.broker_id, gone.fenced = 8, True
    served.call(lambda controller: controller.append(gone))
    wait_until(lambda: len(run(broker, "broker", "describe")) == 2)
    active, fenced = run(broker, "broker", "describe")
    assert (active["broker"], active["state"], active["metadata_offset"]) == (7, "active", 3)
    assert active["broker_epoch"] == served.call(lambda controller: controller.members[7].epoch)
    assert active["log_dirs"]
    assert (fenced["broker"], fenced["state"], fenced["broker_epoch"]) == (8, "fenced", 0)
    assert (fenced["metadata_offset"], fenced["log_dirs"], fenced["configs"]) == (None, [], {})
    table = CliRunner().invoke(main, ["broker", "describe", "8", "--bootstrap-server", broker.bootstrap]).stdout
    assert table.splitlines()[0].endswith("state   broker epoch  metadata offset  log dirs"), table
    done = CliRunner().invoke(main, ["broker", "describe", "9", "--bootstrap-server", broker.bootstrap])
    assert done.stderr == "Error: there is no broker 9: there are 7, 8\n"
    served.call(lambda controller: controller.append(UnregisterBrokerRecord(8, 0)))


def test_the_newest_observer_of_a_broker_counts(served: ServedController, broker: Broker) -> None:
    """The controllers list one of its former directories, too, for minutes."""
    newest = QuorumReplica(7, log_end_offset=4, last_fetch_timestamp=9)
    served.call(lambda controller: controller.observers.insert(0, newest))
    [described] = run(broker, "broker", "describe", "7")
    served.call(lambda controller: controller.observers.remove(newest))
    assert described["metadata_offset"] == 4


def last_registration(controller: ModelController) -> BrokerRegistrationRequest:
    requests = [request for request in controller.requests if isinstance(request, BrokerRegistrationRequest)]
    return requests[-1]


def test_a_broker_of_another_cluster_has_no_membership() -> None:
    with Broker() as alone:
        [described] = run(alone, "broker", "describe")
        assert (described["state"], described["broker_epoch"], described["metadata_offset"]) == (None, None, None)


def test_a_cluster_without_kraft_controllers_is_named() -> None:
    with Broker() as alone:
        done = CliRunner().invoke(main, ["cluster", "quorum", "--bootstrap-server", alone.bootstrap])
        assert done.exit_code == 1
        assert done.stderr == (
            "Error: the cluster has no KRaft controllers: `pylogbroker cluster info` shows its controller\n"
        )
        assert run(alone, "cluster", "info")["brokers"][0]["controller"] is True


def test_the_pages_name_the_controllers(broker: Broker) -> None:
    text = page(broker, "/brokers")
    assert '<span class="badge">active controller</span>' in text
    assert '<span class="badge">controller</span>' not in text
    assert "This broker is <b>active</b>, with broker epoch" in text
    assert "metadata.version 33" in text
    overview = page(broker, "/")
    assert f"KRaft controllers: {CONTROLLER_ID} (active). This broker is active" in overview
    assert '<span class="badge">controller</span>' not in overview
    quorum = json.loads(page(broker, "/api/brokers"))["quorum"]
    assert (quorum["leader"], quorum["state"], quorum["failure"]) == (CONTROLLER_ID, "active", None)
    assert [node["role"] for node in quorum["nodes"]] == ["leader", "observer"]
    assert {"name": "group.version", "level": 1} in quorum["features"]


def metrics(broker: Broker) -> dict[str, float]:
    lines = [line for line in page(broker, "/metrics").splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_the_metrics_have_kafkas_names(broker: Broker, served: ServedController) -> None:
    broker.create_topic("orders")
    end = served.call(lambda controller: controller.log.end)
    found = metrics(broker)
    applied = "kafka_server_brokermetadatametrics_"
    assert found[f"{applied}last_applied_record_offset"] == end - 1
    assert found[f"{applied}last_applied_record_timestamp"] == 1000
    assert found[f"{applied}last_applied_record_lag_ms"] > 1e9  # the model's records have the time 1000
    assert found[f"{applied}metadata_load_error_count"] == found[f"{applied}metadata_apply_error_count"] == 0
    assert found["kafka_server_metadataloader_currentmetadataversion"] == 33
    assert found["kafka_server_metadataloader_currentcontrollerid"] == CONTROLLER_ID
    assert found['kafka_server_metadataloader_finalizedlevel{featurename="group.version"}'] == 1
    assert found["kafka_server_raftmetrics_high_watermark"] == end
    assert found["kafka_server_raftmetrics_current_epoch"] == 1
    assert found['kafka_server_raftmetrics_current_state{current_state="observer"}'] == 1
    assert found['pylogbroker_kraft_registration{state="active"}'] == 1
    assert not [name for name in found if name.startswith("kafka_controller_kafkacontroller_")]


def test_controllers_that_do_not_answer_are_shown() -> None:
    """The broker ends at once: nobody would answer its request for a controlled shutdown."""
    with served_controller() as served, joined(served, controlled_shutdown_enable=False) as broker:
        served.stop()
        wait_until(lambda: "No controller answers this broker now." in page(broker, "/brokers"), 60)
        assert "No controller answers: " in page(broker, "/")
        assert json.loads(page(broker, "/api/brokers"))["controller"] == -1
