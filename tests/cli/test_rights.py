"""Commands of a user without rights: what is missing, and that the named command gives it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

import pytest
from click.testing import CliRunner, Result

from pylogbroker.cli import main, rights
from pylogbroker.cli.cluster_options import Connection
from pylogbroker.cli.rights import Right
from pylogbroker.client.admin import ItemsFailed
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.wire import Request
from pylogbroker.wire.messages.describe_groups import DescribeGroupsRequest
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.clients.test_sasl import SaslBroker, sasl_broker

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    users = "admin:secret\nalice:secret\n"
    settings = {"authorizer_class_name": AUTHORIZER, "super_users": "User:admin"}
    with sasl_broker(tmp_path_factory.mktemp("rights"), users, **settings) as broker:
        run(broker, "admin", "topic", "create", "orders")
        yield broker


def run(broker: SaslBroker, user: str, *arguments: str, given: str = "") -> Result:
    settings = broker.files("SASL_PLAINTEXT", "PLAIN", user=user)
    del settings["ssl.ca.location"]
    address = settings.pop("bootstrap.servers")
    options = [word for name, text in settings.items() for word in ("-X", f"{name}={text}")]
    return CliRunner().invoke(main, [*arguments, "-b", address, *options], input=given)


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "describe", "orders"),
        ("topic", "create", "others"),
        ("topic", "add-partitions", "orders", "2", "--yes"),
        ("topic", "trim", "orders", "--all", "--yes"),
        ("config", "describe", "topic", "orders"),
        ("consume", "orders", "-e"),
        ("consume", "orders", "-g", "readers", "-n", "1"),
        ("produce", "orders"),
        ("group", "lag", "readers"),
        ("acl", "list"),
        ("user", "list"),
        ("cluster", "health"),
        ("reassign", "list"),
    ],
    ids=" ".join,
)
def test_the_named_commands_give_the_rights(secured: SaslBroker, arguments: tuple[str, ...]) -> None:
    """Each error names a command; once the administrator has run all of them, the command succeeds."""
    run(secured, "admin", "acl", "delete", "--principal", "User:alice", "--yes")
    run(secured, "admin", "topic", "delete", "others", "--yes")
    given: list[str] = []
    while True:
        if len(given) == 1:
            run(secured, "admin", "produce", "orders", given="a line\n")
        done = run(secured, "alice", *arguments, given="a line\n")
        if "not allowed" not in done.stderr:
            break
        assert done.exit_code == 1
        command = done.stderr.partition("which an administrator gives by: ")[2]
        assert command, done.stderr
        program, *words = shlex.split(command)
        assert program == "pylogbroker"
        assert words[:4] == ["acl", "create", "allow", "User:alice"]
        assert command not in given
        given.append(command)
        assert run(secured, "admin", *words).exit_code == 0
    assert given
    assert done.exit_code == 0 or "readers" in done.stderr, done.output


def test_lists_say_what_may_be_hidden(secured: SaslBroker) -> None:
    run(secured, "admin", "acl", "delete", "--principal", "User:alice", "--yes")
    for arguments, what in (
        (("topic", "list"), "Topics"),
        (("group", "list"), "Groups"),
        (("txn", "list"), "Transactional ids"),
        (("top", "--once", "--interval", "0.1"), "Topics and groups"),
    ):
        done = run(secured, "alice", *arguments)
        assert done.exit_code == 0
        assert done.stderr.endswith(f"{what} that User:alice may not describe are not shown.\n")
    assert "may not describe" not in run(secured, "admin", "txn", "list").stderr


def test_a_list_without_sizes_says_why(secured: SaslBroker) -> None:
    rule = ("acl", "create", "allow", "User:alice", "describe", "--resource", "topic", "--name", "orders")
    assert run(secured, "admin", *rule).exit_code == 0
    done = run(secured, "alice", "topic", "list")
    assert done.exit_code == 0
    assert done.stderr.startswith("Sizes are not shown: not allowed: User:alice needs describe on the cluster")


def test_a_wrong_password_names_the_user(secured: SaslBroker) -> None:
    done = run(secured, "mallory", "topic", "list")
    assert "(user mallory): are sasl.username and sasl.password right?" in done.stderr


GROUP_ERROR = KafkaError("not allowed to use the group", ErrorCode.GROUP_AUTHORIZATION_FAILED)
TOPIC_ERROR = KafkaError("topic a: not allowed to use the topic", ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@pytest.mark.parametrize(
    ("error", "requests", "needs", "expected"),
    [
        (KafkaError("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (), {}, "x"),
        (PylogbrokerError("x"), (), {}, "x"),
        (TOPIC_ERROR, (), {}, "topic a: not allowed to use the topic"),
        (GROUP_ERROR, (FindCoordinatorRequest("g"),), {}, "describe on group g, .* describe --resource group --name g"),
        (GROUP_ERROR, (DescribeGroupsRequest(["g", "h"]),), {}, "describe on group, .*--resource group --name NAME"),
        (TOPIC_ERROR, (), {"topic": Right("read", "topic")}, "read on topic a, .* read --resource topic --name a"),
        (
            KafkaError("line 7: not allowed", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            (),
            {"cluster": Right("write", "topic", "a b")},
            "^line 7: not allowed: User:u needs write on topic a b, .* --name 'a b'",
        ),
    ],
)
def test_explanations(
    error: PylogbrokerError, requests: tuple[Request, ...], needs: Mapping[str, Right], expected: str
) -> None:
    explanation = rights.explained(error, requests, needs, "User:u")
    with pytest.raises(type(explanation), match=expected):
        raise explanation


def test_each_item_is_explained() -> None:
    failed = ItemsFailed({"a": TOPIC_ERROR, ("b", 0): TOPIC_ERROR}, {"c": 1})
    explanation = rights.explained(failed, (), {"topic": Right("delete", "topic")}, None)
    assert isinstance(explanation, ItemsFailed)
    assert explanation.results == {"c": 1}
    for name, error in zip("ab", explanation.errors.values(), strict=True):
        assert str(error).endswith(f"acl create allow User:NAME delete --resource topic --name {name}")


@pytest.mark.parametrize(
    ("settings", "principal"),
    [
        ({}, "User:ANONYMOUS"),
        ({"security.protocol": "SSL"}, "User:ANONYMOUS"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "k"}, None),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u"}, "User:u"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.username": "u"}, None),
    ],
)
def test_principals_of_connections(settings: dict[str, str], principal: str | None) -> None:
    assert Connection({"bootstrap.servers": "", **settings}).principal == principal
