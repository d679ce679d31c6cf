"""Connections of a listener with SASL: the authentication, and attempts to get around it."""

from __future__ import annotations

import contextlib
import gc
import struct
import weakref
from collections.abc import Mapping
from itertools import product
from math import inf
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from twisted.internet.task import Clock

from pylogbroker.broker.requests.offered_versions import offered_versions
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.security import sasl_listeners
from pylogbroker.broker.security.login_queue import LOGIN_THREADS, WAITING_PER_HOST_MAX
from pylogbroker.broker.security.logins import credentials_of_broker
from pylogbroker.broker.security.sasl_listeners import SaslListeners, check_sasl
from pylogbroker.broker.security.scram_store import ScramStore
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError, ErrorCode
from pylogbroker.interfaces import Create
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.security.sasl.authentication import AuthenticationFailed
from pylogbroker.security.sasl.client import ScramClient
from pylogbroker.wire import SUPPORTED
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pylogbroker.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import Threads
from tests.broker.trees import now, opened_tree
from tests.net.sasl_peers import RIGHT, Peer, SaslNodeTests, raw
from tests.security.test_stored_credentials import TEXT
from tests.security.tokens import Issuer, first_message, unsecured
from tests.storage.support import batch

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
ISSUER = Issuer()
WRONG, UNKNOWN = b"\0alice\0wrong", b"\0nobody\0secret"
SOFTWARE = ApiVersionsRequest(client_software_name="x", client_software_version="1")


class SaslListenerTests(SaslNodeTests):
    def test_the_authentication_with_requests(self) -> None:
        peer = Peer(self)
        known = {each.api_key for each in peer.ask(SOFTWARE, 3).api_keys}
        self.assertTrue({0, 1, 3, 17, 36} <= known)
        shaken = peer.ask(SaslHandshakeRequest("PLAIN"), 1)
        self.assertEqual((shaken.error_code, shaken.mechanisms), (0, ["PLAIN", "SCRAM-SHA-256"]))
        answer = peer.ask(SaslAuthenticateRequest(RIGHT), 2)
        self.assertEqual((answer.error_code, answer.error_message, answer.auth_bytes), (0, None, b""))
        self.assertEqual(peer.principal, "User:alice")
        self.assertEqual(peer.ask(ListGroupsRequest(), 4).error_code, 0)
        self.node.clock.advance(10)
        self.assertEqual(peer.transport.closed, "")
        self.assertEqual(self.counts(), (1, 1, 0))
        self.assertEqual(peer.protocol.software, (SOFTWARE.client_software_name, SOFTWARE.client_software_version))

    def counts(self) -> tuple[int, int, int]:
        counts = self.factory.counts
        steps = {("SASL", True): counts.authenticated, ("SASL", False): counts.not_authenticated}
        self.assertEqual(counts.setups, steps)
        return counts.accepted, counts.authenticated, counts.not_authenticated

    def test_the_log_says_that_a_client_does_not_authenticate(self) -> None:
        with logged_lines() as lines:
            Peer(self).send((ListGroupsRequest(), 4))
        [line] = lines
        self.assertRegex(line, r"on SASL_PLAINTEXT: ListGroups \(16\) came before authentication: .*security.protocol")

    def test_the_authentication_with_tokens_alone(self) -> None:
        peer = Peer(self)
        self.assertEqual(peer.ask(SaslHandshakeRequest("PLAIN"), 0).error_code, 0)
        peer.send(raw(RIGHT))
        self.assertEqual(peer.frames(), [b""])
        self.assertEqual(peer.ask(ListGroupsRequest(), 4).error_code, 0)

    def test_a_wrong_password_and_an_unknown_user_are_answered_alike(self) -> None:
        answers = []
        for token in (WRONG, UNKNOWN):
            peer = Peer(self)
            peer.ask(SaslHandshakeRequest("PLAIN"), 1)
            peer.send((SaslAuthenticateRequest(token), 2), (ListGroupsRequest(), 4))
            self.node.clock.advance(0.09)
            self.assertEqual((peer.transport.sent, peer.transport.closed), ([], ""))
            self.node.clock.advance(0.02)
            self.node.clock.advance(0)
            answers.append(peer.read(SaslAuthenticateRequest(), 2))
            self.assertEqual(peer.transport.closed, "after sending")
            self.assertEqual(peer.principal, "User:ANONYMOUS")
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0].error_code, ErrorCode.SASL_AUTHENTICATION_FAILED)
        text = "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
        self.assertEqual(answers[0].error_message, text)
        self.assertEqual(self.counts(), (2, 0, 2))

    def test_a_wrong_token_without_a_header_has_no_answer(self) -> None:
        peer = Peer(self)
        peer.ask(SaslHandshakeRequest("PLAIN"), 0)
        with logged_lines() as lines:
            peer.send(raw(WRONG), raw(RIGHT), (ListGroupsRequest(), 4))
            self.assertEqual(peer.transport.closed, "")
            self.node.clock.advance(0.11)
            self.node.clock.advance(0)
        self.assertEqual((peer.frames(), peer.transport.closed), ([], "after sending"))
        cause = "the user or the password is wrong"
        self.assertEqual(lines, [f"closed the connection from 10.0.0.1:5000 on SASL_PLAINTEXT: SASL: {cause}"])

    def test_no_other_request_is_served_before_authentication(self) -> None:
        """Each API, in each version, at the start and behind a handshake: no answer, but the end."""
        tried = 0
        for key, (request, _) in SUPPORTED.items():
            if key in (17, 18, 36):
                continue
            for version, shaken in product(range(offered_versions(request.api_key).last + 1), (False, True)):
                peer = Peer(self)
                if shaken:
                    peer.ask(SaslHandshakeRequest("PLAIN"), 1)
                tags = b"\0" if request.versions.is_flexible(version) else b""
                header = struct.pack(">hhih", key, version, 1, -1) + tags
                peer.send(struct.pack(">i", len(header)) + header)
                found = peer.frames(), peer.transport.closed
                self.assertEqual(found, ([], "at once"), f"{request.__name__} {version}")
                tried += 1
        self.assertGreater(tried, 2 * len(SUPPORTED))

    def test_requests_before_authentication_count_as_failed_logins(self) -> None:
        """A flood of it would not be seen otherwise; a violation of an authenticated client is none."""
        handshake, garbage = (SaslHandshakeRequest("PLAIN"), 1), struct.pack(">ihhih", 10, 36, 1, 1, 7)
        for number, sent in enumerate(
            (
                [(ListGroupsRequest(), 4)],
                [struct.pack(">i", 1001)],
                [b"GET / HTTP/1.1"],
                [(SaslAuthenticateRequest(RIGHT), 2)],
                [handshake, garbage],
                [handshake, (ListGroupsRequest(), 4), struct.pack(">i", -1)],
                [handshake, (SaslAuthenticateRequest(WRONG), 2), struct.pack(">i", 1001)],
            ),
            start=1,
        ):
            peer = Peer(self)
            peer.send(*sent)
            self.node.clock.advance(0.2)
            self.node.clock.advance(0)
            peer.protocol.connectionLost()
            counts = self.factory.counts
            self.assertEqual((counts.not_authenticated, counts.setups["SASL", False]), (number, number), sent)
        peer = Peer(self)
        peer.log_in()
        peer.send(garbage)
        self.assertEqual(
            (peer.transport.closed, counts.authenticated, counts.not_authenticated), ("at once", 1, number)
        )

    def test_a_client_that_is_closed_while_it_waits_is_not_authenticated(self) -> None:
        self.node.logins.holding = True
        peer = Peer(self)
        peer.send((SaslHandshakeRequest("PLAIN"), 1), (SaslAuthenticateRequest(RIGHT), 2))
        peer.protocol.close_because("a test")
        self.node.logins.run_one()
        self.node.clock.advance(1)
        self.assertEqual((self.factory.counts.authenticated, peer.principal), (0, "User:ANONYMOUS"))

    def test_requests_behind_a_failure_are_dropped(self) -> None:
        peer = Peer(self)
        authenticate = SaslAuthenticateRequest(WRONG), 2
        right = (SaslHandshakeRequest("PLAIN"), 1), (SaslAuthenticateRequest(RIGHT), 2)
        peer.send((SaslHandshakeRequest("PLAIN"), 1), authenticate, *right, (ListGroupsRequest(), 4))
        self.node.clock.advance(0.11)
        self.node.clock.advance(0)
        self.assertEqual(len(peer.frames()), 2)
        self.assertEqual((peer.transport.closed, peer.principal), ("after sending", "User:ANONYMOUS"))

    def test_requests_behind_a_success_wait_for_it(self) -> None:
        peer = Peer(self)
        self.node.logins.holding = True
        peer.send((SaslHandshakeRequest("PLAIN"), 1), (SaslAuthenticateRequest(RIGHT), 2), (ListGroupsRequest(), 4))
        self.assertEqual(len(peer.frames()), 1)
        self.node.logins.holding = False
        self.node.logins.run_one()
        self.node.clock.advance(0)
        self.assertEqual(len(peer.frames()), 2)
        self.assertEqual(peer.principal, "User:alice")

    def test_a_client_cannot_become_another_user(self) -> None:
        peer = Peer(self)
        peer.log_in()
        self.assertEqual(peer.ask(SaslHandshakeRequest("PLAIN"), 1).error_code, ErrorCode.ILLEGAL_SASL_STATE)
        again = peer.ask(SaslAuthenticateRequest(b"\0bob\0secret"), 2)
        self.assertEqual(again.error_code, ErrorCode.ILLEGAL_SASL_STATE)
        self.assertEqual(peer.principal, "User:alice")

    def test_requests_out_of_order_end_the_connection(self) -> None:
        handshake = SaslHandshakeRequest("PLAIN")
        for before in (
            [(SOFTWARE, 3), (SOFTWARE, 3)],
            [(handshake, 1), (handshake, 1)],
            [(handshake, 1), (SOFTWARE, 3)],
        ):
            peer = Peer(self)
            peer.send(*before)
            self.assertEqual((len(peer.frames()), peer.transport.closed), (1, "at once"))
        peer = Peer(self)
        peer.send((SaslAuthenticateRequest(RIGHT), 2))
        self.node.clock.advance(0.11)
        self.node.clock.advance(0)
        self.assertEqual(peer.read(SaslAuthenticateRequest(), 2).error_code, ErrorCode.ILLEGAL_SASL_STATE)
        self.assertEqual((peer.transport.closed, peer.principal), ("after sending", "User:ANONYMOUS"))

    def test_versions_may_be_asked_again_after_one_that_is_not_known(self) -> None:
        peer = Peer(self)
        peer.send(struct.pack(">ihhih", 10, 18, 99, 1, -1))
        self.assertEqual(len(peer.frames()), 1)
        self.assertEqual(peer.ask(SOFTWARE, 3).error_code, 0)

    def test_a_mechanism_that_is_not_enabled(self) -> None:
        for mechanism in ("SCRAM-SHA-512", "GSSAPI", "\n"):
            peer = Peer(self)
            answer = peer.ask(SaslHandshakeRequest(mechanism), 1)
            self.assertEqual(answer.error_code, ErrorCode.UNSUPPORTED_SASL_MECHANISM)
            self.assertEqual(answer.mechanisms, ["PLAIN", "SCRAM-SHA-256"])
            self.assertEqual(peer.transport.closed, "after sending")

    def test_huge_tokens_are_not_received(self) -> None:
        peer = Peer(self)
        with logged_lines() as lines:
            peer.send(struct.pack(">i", 1001))
        self.assertEqual(peer.transport.closed, "at once")
        self.assertIn("larger than sasl.server.max.receive.size=1000", lines[0])
        served = Peer(self)
        served.log_in()
        served.send(struct.pack(">i", 1001))
        self.assertEqual(served.transport.closed, "")

    def test_slow_authentication_ends(self) -> None:
        peer = Peer(self)
        peer.ask(SaslHandshakeRequest("PLAIN"), 1)
        with logged_lines() as lines:
            self.node.clock.advance(5.1)
        self.assertEqual(peer.transport.closed, "at once")
        self.assertIn("SASL: the authentication took longer than connection.setup.timeout.ms=5000", lines[0])
        peer.protocol.connectionLost()

    def test_passwords_are_not_checked_in_the_threads_of_syncs(self) -> None:
        self.node.threads.holding = True
        self.assertEqual(Peer(self).log_in().error_code, 0)
        self.assertEqual(self.node.threads.held, [])

    def test_too_many_logins_of_an_address_end_connections(self) -> None:
        """There is no answer: clients try again after a lost connection, and not after a wrong password."""
        self.node.logins.holding = True
        handshakes = [((SaslHandshakeRequest("PLAIN"), version), version) for version in (0, 1)]
        token = SaslAuthenticateRequest(RIGHT), 2
        peers = [Peer(self) for _ in range(LOGIN_THREADS + WAITING_PER_HOST_MAX)]
        for peer in peers:
            peer.send(handshakes[1][0], token)
        for handshake, version in handshakes:
            with logged_lines() as lines:
                late = Peer(self)
                late.ask(*handshake)
                late.send(token if version else raw(RIGHT))
                self.node.clock.advance(0.2)
            self.assertEqual((late.frames(), late.transport.closed), ([], "at once"))
            self.assertIn(f"SASL_PLAINTEXT: {WAITING_PER_HOST_MAX} logins of 10.0.0.1 wait already", lines[0])
        while self.node.logins.held:
            self.node.logins.run_one()
        self.node.clock.advance(0)
        self.assertEqual({peer.principal for peer in peers}, {"User:alice"})

    def test_a_client_that_is_lost_while_it_waits_is_not_authenticated(self) -> None:
        self.node.logins.holding = True
        peers = [Peer(self) for _ in range(LOGIN_THREADS + 1)]
        for number, peer in enumerate(peers):
            peer.send((SaslHandshakeRequest("PLAIN"), number % 2), raw(RIGHT) if number % 2 == 0 else b"")
            if number % 2:
                peer.send((SaslAuthenticateRequest(RIGHT), 2))
            peer.protocol.connectionLost()
        while self.node.logins.held:
            self.node.logins.run_one()
        self.node.clock.advance(1)
        self.assertEqual((self.factory.counts.authenticated, self.factory.counts.setups["SASL", True]), (0, 0))
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assertEqual(self.factory.memory.total, 0)

    def test_a_closed_connection_is_freed_at_once(self) -> None:
        """Many of them would fill the memory until the next full collection, those of TLS with 50 KB each."""
        handshake = SaslHandshakeRequest("PLAIN"), 1
        wrong, right = (SaslAuthenticateRequest(WRONG), 2), (SaslAuthenticateRequest(RIGHT), 2)
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        for sent in (
            (),
            ((SOFTWARE, 3),),
            (handshake,),
            (handshake, wrong),
            (handshake, right, (ListGroupsRequest(), 4)),
        ):
            peer = Peer(self)
            protocol = weakref.ref(peer.protocol)
            peer.send(*sent)
            self.node.clock.advance(0.2)
            self.node.clock.advance(0)
            peer.protocol.connectionLost()
            del peer
            self.assertIsNone(protocol(), sent)

    def test_changed_users_are_read_again(self) -> None:
        self.file.write_text("bob:another one\n")
        self.node.clock.advance(5)
        self.assertEqual(Peer(self).log_in(b"\0bob\0another one").error_code, 0)
        self.file.write_text("no user")
        with logged_lines() as lines:
            self.node.clock.advance(5)
        self.assertIn("the former users stay", lines[0])
        self.assertNotIn("no user", lines[0])
        self.assertEqual(Peer(self).log_in(b"\0bob\0another one").error_code, 0)

    def test_an_unexpected_error_does_not_end_the_file_checks(self) -> None:
        self.file.write_text("bob:another one\n")
        with patch.object(sasl_listeners, "_load", side_effect=LookupError), logged_lines() as lines:
            self.node.clock.advance(5)
        self.assertIn("the former users stay", lines[0])
        self.assertEqual(len(self.flushLoggedErrors(LookupError)), 1)
        self.assertEqual(Peer(self).log_in().error_code, 0)
        self.node.clock.advance(5)
        self.assertEqual(Peer(self).log_in(b"\0bob\0another one").error_code, 0)


class SessionTests(SaslListenerTests):
    """Sessions of 10 s (KIP-368)."""

    extra: ClassVar[Mapping[str, str]] = {
        "listener.name.sasl_plaintext.connections.max.reauth.ms": "60000",
        "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "10000",
    }

    def again(self, peer: Peer, token: bytes = RIGHT, mechanism: str = "PLAIN") -> Any:
        """Authenticate again on a connection; return the last answer."""
        shaken = peer.ask(SaslHandshakeRequest(mechanism), 1)
        self.assertEqual(shaken.error_code, 0)
        peer.send((SaslAuthenticateRequest(token), 2))
        self.node.clock.advance(0.11)
        self.node.clock.advance(0)
        return peer.read(SaslAuthenticateRequest(), 2)

    def test_a_session_that_is_renewed_goes_on(self) -> None:
        peer = Peer(self)
        self.assertEqual(peer.log_in().session_lifetime_ms, 10_000)
        for _ in range(3):
            self.node.clock.advance(9.5)
            answer = self.again(peer)
            self.assertEqual((answer.error_code, answer.session_lifetime_ms), (0, 10_000))
            self.assertEqual(peer.ask(ListGroupsRequest(), 4).error_code, 0)
        self.assertEqual(peer.principal, "User:alice")

    def test_a_request_after_the_end_of_the_session_ends_the_connection(self) -> None:
        peer = Peer(self)
        peer.log_in()
        self.node.clock.advance(9.9)
        self.assertEqual(peer.ask(ListGroupsRequest(), 4).error_code, 0)
        self.node.clock.advance(0.2)
        self.assertEqual(peer.transport.closed, "")
        peer.send((ListGroupsRequest(), 4), (SaslHandshakeRequest("PLAIN"), 1))
        self.assertEqual((peer.frames(), peer.transport.closed), ([], "at once"))
        self.assertEqual(peer.protocol.factory.counts.expired, 1)

    def test_a_repeated_request_after_the_end_of_the_session_ends_the_connection(self) -> None:
        self.node.create("t")
        produce = ProduceRequest(None, 1, 1000, [TopicProduceData("t", [PartitionProduceData(0, batch([b"v"]))])])
        fetch = FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition(partition_max_bytes=1000)])])
        for request, version in ((produce, 9), (fetch, 11)):
            peer = Peer(self)
            peer.log_in()
            for _ in range(3):
                peer.ask(request, version)
            self.assertEqual(len(peer.protocol._headers.repeated), 1)
            self.node.clock.advance(10.1)
            peer.send((request, version), (request, version))
            self.assertEqual((peer.frames(), peer.transport.closed), ([], "at once"))
        self.assertEqual(self.node.broker.partitions.led["t", 0].log.log_end_offset, 3)

    def test_a_joined_request_after_the_end_of_the_session_ends_the_connection(self) -> None:
        self.node.create("t")
        produce = ProduceRequest(None, 1, 1000, [TopicProduceData("t", [PartitionProduceData(0, batch([b"v"]))])])
        peers = [Peer(self), Peer(self)]
        for peer in peers:
            peer.log_in()
        for peer in peers * 2:
            peer.ask(produce, 9)
        self.assertEqual(len(self.joined_answers(peers[0], produce)), 1)
        peers[1].ask(produce, 9)
        self.node.clock.advance(10.1)
        self.assertEqual((self.joined_answers(peers[0], produce), peers[0].transport.closed), ([], "at once"))
        self.assertEqual(self.node.broker.partitions.led["t", 0].log.log_end_offset, 6)

    def joined_answers(self, peer: Peer, request: ProduceRequest) -> list[bytes]:
        """Send a request in an iteration that reads several connections; return the answers."""
        joined_reads = peer.protocol.factory.joined_reads
        joined_reads.is_open = True
        peer.send((request, 9))
        self.assertEqual(peer.frames(), [])
        joined_reads.close()
        return peer.frames()

    def test_a_late_client_may_still_authenticate(self) -> None:
        peer = Peer(self)
        peer.log_in()
        self.node.clock.advance(11)
        self.assertEqual(self.again(peer).error_code, 0)
        self.assertEqual(peer.ask(ListGroupsRequest(), 4).error_code, 0)

    def test_a_failed_or_different_reauthentication_ends_the_connection(self) -> None:
        self.file.write_text("alice:secret\nbob:secret\n")
        self.node.clock.advance(5)
        scram = ScramClient("SCRAM-SHA-256", "alice", "secret")
        first = scram.respond(b"")
        assert first is not None
        for token in (b"\0bob\0secret", b"\0alice\0wrong", b"bob\0alice\0secret"):
            peer = Peer(self)
            peer.log_in()
            self.node.clock.advance(2)
            self.assertEqual(self.again(peer, token).error_code, ErrorCode.SASL_AUTHENTICATION_FAILED)
            self.assertEqual((peer.transport.closed, peer.principal), ("after sending", "User:alice"))
        peer = Peer(self)
        peer.log_in()
        self.node.clock.advance(2)
        challenge = self.again(peer, first, "SCRAM-SHA-256").auth_bytes
        proof = scram.respond(bytes(challenge))
        assert proof is not None
        peer.send((SaslAuthenticateRequest(proof), 2), (ListGroupsRequest(), 4))
        self.node.clock.advance(0.11)
        self.node.clock.advance(0)
        answer = peer.read(SaslAuthenticateRequest(), 2)
        self.assertEqual((answer.error_code, peer.transport.closed), (58, "after sending"))

    def test_no_other_request_is_served_during_the_authentication(self) -> None:
        peer = Peer(self)
        peer.log_in()
        self.node.clock.advance(2)
        peer.ask(SaslHandshakeRequest("PLAIN"), 1)
        peer.send((ListGroupsRequest(), 4))
        self.assertEqual((peer.frames(), peer.transport.closed), ([], "at once"))

    def test_tokens_without_headers_and_early_handshakes_are_no_way(self) -> None:
        peer = Peer(self)
        peer.log_in()
        self.assertEqual(peer.ask(SaslHandshakeRequest("PLAIN"), 1).error_code, ErrorCode.ILLEGAL_SASL_STATE)
        self.node.clock.advance(2)
        peer.send((SaslHandshakeRequest("PLAIN"), 0), raw(RIGHT))
        self.assertEqual((peer.frames(), peer.transport.closed), ([], "at once"))

    def test_other_mechanisms_have_the_lifetime_of_the_listener(self) -> None:
        sasl = self.node.broker.sasl
        self.assertEqual(sasl.session_lifetime_ms("SASL_PLAINTEXT", "SCRAM-SHA-256"), 60_000)

    def test_a_session_ends_with_the_clients_token(self) -> None:
        sasl, now = self.node.broker.sasl, int(self.node.clock.seconds() * 1000)
        for left, lifetime in ((5000, 5000), (70_000, 60_000), (-1, 1)):
            found = sasl.session_lifetime_ms("SASL_PLAINTEXT", "SCRAM-SHA-256", now + left)
            self.assertEqual(found, lifetime)


def config(**settings: str) -> BrokerConfig:
    listeners = {"listeners": "OPEN://localhost:1,INSIDE://localhost:2"}
    protocols = {"listener.security.protocol.map": "OPEN:PLAINTEXT,INSIDE:SASL_PLAINTEXT"}
    return BrokerConfig({**listeners, **protocols, **{name.replace("_", "."): text for name, text in settings.items()}})


def opened(directory: Path, config: BrokerConfig, **stored: str) -> SaslListeners:
    """Open the users of a broker that is about to serve, with settings of users in its tree."""
    with opened_tree(str(directory)) as tree:
        runtime = Runtime.on(Clock(), Threads(), Threads())
        runtime.slices.seconds = inf
        for name, credential in stored.items():
            data = zk_schema.encode_config({"SCRAM-SHA-256": credential})
            now(tree.commit([Create(zk_paths.user_config(name), data)]))
        sasl = SaslListeners(config, runtime, ScramStore(tree, runtime, notifies=False))
        now(sasl.open())
        sasl.stop()
        return sasl


def test_a_start_without_users_says_how_to_add_one(tmp_path: Path) -> None:
    check_sasl(config())
    for settings, command in (
        ({"log_dirs": "/a b"}, "pylogbroker user add --data-dir '/a b' NAME"),
        ({"log_dirs": "/a,/b"}, "pylogbroker user add --data-dir /a -o log.dirs=/a,/b NAME"),
        ({"log_dirs": "/a", "metadata_log_dir": "/m"}, "--data-dir /a -o metadata.log.dir=/m NAME"),
        ({"users": str(tmp_path / "users")}, f"pylogbroker user add --file {tmp_path}/users NAME"),
    ):
        (tmp_path / "users").write_text("")
        with pytest.raises(ConfigError) as error:
            opened(tmp_path, config(**settings))
        assert str(error.value).startswith("users: listener INSIDE has no user who could connect")
        assert command in str(error.value)
    with pytest.raises(ConfigError, match=r"users: /none: No such file or directory; .* user add --file /none NAME"):
        check_sasl(config(users="/none"))


IN_KRAFT = {
    "process_roles": "broker",
    "controller_quorum_bootstrap_servers": "localhost:1",
    "controller_listener_names": "CONTROLLER",
    "node_id": "1",
    "listener_security_protocol_map": "CONTROLLER:PLAINTEXT,OPEN:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
}


@pytest.mark.parametrize("settings", [{"zookeeper_connect": "localhost:1"}, IN_KRAFT], ids=["zookeeper", "kraft"])
def test_a_member_of_a_cluster_starts_without_users(tmp_path: Path, settings: Mapping[str, str]) -> None:
    """They may be added to the cluster later: one line says so."""
    with logged_lines() as lines:
        sasl = opened(tmp_path, config(**settings))
    [line] = [line for line in lines if "no user" in line]
    assert line.startswith("listener INSIDE has no user who could connect: add one to the cluster, by `pylogbroker ")
    assert line.endswith("pylogbroker user add --file PATH NAME")
    authentication = sasl.authentication("INSIDE")
    authentication.begin("PLAIN", 1)
    with pytest.raises(AuthenticationFailed):
        authentication.respond(b"\0alice\0pencil")


def test_a_file_of_users_that_everybody_can_read(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("alice:secret\n")
    path.chmod(0o640)
    with logged_lines() as lines:
        check_sasl(config(users=str(path)))
        assert not [line for line in lines if "can be read" in line]
        path.chmod(0o644)
        check_sasl(config(users=str(path)))
    assert f"users: {path} can be read by every user of this machine: run chmod o-rwx {path}" in lines


def test_users_of_the_tree_are_enough(tmp_path: Path) -> None:
    sasl = opened(tmp_path, config(), alice=TEXT)
    assert sasl.run("host", lambda token: token, b"x").result == b"x"
    authentication = sasl.authentication("INSIDE")
    authentication.begin("PLAIN", 1)
    authentication.respond(b"\0alice\0pencil")
    assert authentication.user == "alice"


UNSECURED = "org.apache.kafka.common.security.oauthbearer.internals.unsecured"
UNSECURED += ".OAuthBearerUnsecuredValidatorCallbackHandler"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def test_tokens_need_keys_or_a_warning(tmp_path: Path) -> None:
    mechanisms = {"sasl_enabled_mechanisms": "OAUTHBEARER"}
    url, audience = "sasl_oauthbearer_jwks_endpoint_url", "sasl.oauthbearer.expected.audience"
    with pytest.raises(ConfigError, match="listener INSIDE offers OAUTHBEARER, and needs the keys"):
        check_sasl(config(**mechanisms))
    (tmp_path / "keys").write_bytes(ISSUER.jwks())
    signed = config(**mechanisms, **{url: (tmp_path / "keys").as_uri(), f"listener.name.inside.{audience}": "kafka"})
    with logged_lines() as lines:
        check_sasl(signed)
    [line] = lines
    assert "listener INSIDE takes tokens without encryption" in line
    assert logged_in(opened(tmp_path, signed), ISSUER.token(sub="alice", exp=1 << 33, aud="kafka")) == "alice"
    assert logged_in(opened(tmp_path, signed), ISSUER.token(sub="alice", exp=1 << 33, aud="other")) is None
    (tmp_path / "keys").unlink()
    with pytest.raises(ConfigError, match="the keys cannot be read"):
        opened(tmp_path, signed)


def test_tokens_that_nobody_has_signed(tmp_path: Path) -> None:
    handler = "listener.name.inside.oauthbearer.sasl.server.callback.handler.class"
    jaas = f'{OAUTH_MODULE} required unsecuredValidatorPrincipalClaimName="name";'
    settings = {"sasl_enabled_mechanisms": "OAUTHBEARER", handler: UNSECURED}
    with logged_lines() as lines:
        check_sasl(config(**settings))
    assert "listener INSIDE accepts tokens that nobody has signed" in lines[0]
    assert logged_in(opened(tmp_path, config(**settings)), unsecured(sub="alice", exp=1 << 33)) == "alice"
    name = "listener.name.inside.oauthbearer.sasl.jaas.config"
    settings[name] = jaas
    assert logged_in(opened(tmp_path, config(**settings)), unsecured(sub="alice", exp=1 << 33, name="bob")) == "bob"
    settings[name] = jaas.replace("PrincipalClaimName", "AllowableClockSkewMs")
    with pytest.raises(ConfigError, match="expected milliseconds"):
        check_sasl(config(**settings))


def logged_in(sasl: SaslListeners, token: str) -> str | None:
    """Return the user of a token."""
    authentication = sasl.authentication("INSIDE")
    assert authentication.begin("OAUTHBEARER", 1)
    authentication.respond(first_message(token))
    assert authentication.expires_ms == ((1 << 33) * 1000 if authentication.user else None)
    return authentication.user


def test_accounts_of_java_are_users(tmp_path: Path) -> None:
    accounts = f'{PLAIN} required user_bob="secret";'
    for name in ("sasl.jaas.config", "listener.name.inside.plain.sasl.jaas.config"):
        with logged_lines() as lines:
            check_sasl(config(**{name: accounts}))
        opened(tmp_path, config(**{name: accounts}))
        assert "listener INSIDE takes passwords without encryption" in lines[0]
    with pytest.raises(ConfigError, match="has no user"):
        opened(tmp_path, config(**{"listener.name.inside.scram-sha-256.sasl.jaas.config": accounts}))


CLUSTER = {"zookeeper_connect": "localhost:1", "inter_broker_listener_name": "INSIDE", "users": "/dev/null"}
OWN_LOGIN = "listener.name.inside.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, r"sasl.mechanism.inter.broker.protocol: 'GSSAPI' is not offered; expected any of PLAIN, SCRAM"),
        ({"sasl_mechanism_inter_broker_protocol": "OAUTHBEARER"}, "'OAUTHBEARER' is not offered"),
        ({"sasl_mechanism_inter_broker_protocol": "PLAIN"}, f"{OWN_LOGIN}: expected the user and the password"),
        (
            {"sasl_mechanism_inter_broker_protocol": "PLAIN", "sasl_enabled_mechanisms": "SCRAM-SHA-256"},
            "PLAIN is not in sasl.enabled.mechanisms of listener INSIDE",
        ),
        (
            {"sasl_mechanism_inter_broker_protocol": "PLAIN", OWN_LOGIN: f'{PLAIN} required user_bob="secret";'},
            f'{OWN_LOGIN}: expected username="..." and password',
        ),
        (
            {"sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-256", "sasl_jaas_config": f"{PLAIN} required a=b;"},
            "PlainLoginModule is not of SCRAM-SHA-256",
        ),
    ],
)
def test_a_broker_needs_credentials_for_others(settings: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        check_sasl(config(**CLUSTER, **settings))


def test_credentials_of_a_broker() -> None:
    own = f'{PLAIN} required username="broker" password="secret" user_broker="secret";'
    settings = {**CLUSTER, "sasl_mechanism_inter_broker_protocol": "PLAIN", OWN_LOGIN: own}
    check_sasl(config(**settings))
    found = credentials_of_broker(config(**settings))
    assert found is not None
    assert (found.mechanism, found.start().respond(b"")) == ("PLAIN", b"\0broker\0secret")
    assert "secret" not in repr(found)
    assert credentials_of_broker(config(inter_broker_listener_name="OPEN")) is None


def test_a_file_of_java_logins(tmp_path: Path) -> None:
    """A listener's section counts before that of all, and settings before both; a restart reads it again."""
    path = tmp_path / "jaas.conf"
    settings = {"java.security.auth.login.config": str(path)}
    with pytest.raises(ConfigError, match=r"java.security.auth.login.config: .*: No such file"):
        check_sasl(config(**settings))

    def connects(user: str, **more: str) -> bool:
        check_sasl(config(**settings, **more))
        authentication = opened(tmp_path, config(**settings, **more)).authentication("INSIDE")
        authentication.begin("PLAIN", 1)
        with contextlib.suppress(AuthenticationFailed):
            authentication.respond(f"\0{user}\0secret".encode())
        return authentication.user == user

    path.write_text(f'KafkaServer {{ {PLAIN} required user_alice="secret"; }};')
    assert connects("alice")
    with path.open("a") as file:
        file.write(f'inside.KafkaServer {{ {PLAIN} required user_bob="secret"; }};')
    assert (connects("alice"), connects("bob")) == (False, True)
    set_there = {"listener.name.inside.plain.sasl.jaas.config": f'{PLAIN} required user_carol="secret";'}
    assert (connects("bob", **set_there), connects("carol", **set_there)) == (False, True)
