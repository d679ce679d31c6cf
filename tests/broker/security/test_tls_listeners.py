"""Certificates that change while the broker runs: by a file, or by AlterConfigs."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from unittest.mock import patch

from cryptography import x509
from twisted.internet.defer import ensureDeferred

from pylogbroker.broker.metadata.config_resources import BrokerResource
from pylogbroker.broker.security import tls_listeners
from pylogbroker.config import ConfigSource
from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.metadata.image import broker_resource
from pylogbroker.security.tls.contexts import client_context
from pylogbroker.security.tls.engine import TlsEngine
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import NodeTests
from tests.security.engines import EnginePair, trusting
from tests.support.certificates import HOSTS, Certificates, identity, tls_settings

OWN = "listener.name.ssl."


def with_changes(changes: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    return {**before, **changes}


class ReloadTests(NodeTests):
    def setUp(self) -> None:
        self.certificates = Certificates(Path(self.enterContext(tempfile.TemporaryDirectory())))
        self.settings = {
            **self.certificates.broker,
            "listeners": "PLAINTEXT://localhost:9092,SSL://localhost:9093",
            "ssl.store.check.interval.ms": "20000",
        }
        super().setUp()
        self.tls = self.node.broker.tls
        self.successResultOf(ensureDeferred(self.tls.open()))

    def shown_name(self) -> str:
        """Connect, and return the name in the certificate of the broker."""
        client = TlsEngine(client_context(tls_settings(**trusting())), is_server=False, host="localhost")
        pair = EnginePair(self.tls["SSL"].engine(), client)
        assert pair.shake_hands() == []
        shown = client.peer_certificate
        assert shown is not None
        return x509.load_der_x509_certificate(shown).subject.rfc4514_string()

    def replace(self, text: str) -> None:
        Path(self.certificates.broker["ssl.keystore.location"]).write_text(text)

    def test_a_changed_file_is_read_again(self) -> None:
        self.assertEqual(self.shown_name(), "CN=broker")
        self.replace(identity("renewed", HOSTS).pem())
        self.node.clock.advance(19)
        self.assertEqual(self.shown_name(), "CN=broker")
        with logged_lines() as lines:
            self.node.clock.advance(1)
            self.node.clock.advance(20)
        self.assertEqual(self.shown_name(), "CN=renewed")
        self.assertEqual(lines, ["read the key store and the trust store of listener SSL again"])

    def test_a_bad_file_changes_nothing(self) -> None:
        self.replace("half a certif")
        with logged_lines() as lines:
            self.node.clock.advance(20)
            self.node.clock.advance(20)
        self.assertEqual(self.shown_name(), "CN=broker")
        [line] = lines
        self.assertRegex(line, "the former certificates stay in use: listener SSL: ssl.keystore.location: .* 0 private")
        self.replace(identity("renewed", HOSTS).pem())
        self.node.clock.advance(20)
        self.assertEqual(self.shown_name(), "CN=renewed")

    def test_an_error_that_nobody_expected_does_not_end_the_checks(self) -> None:
        for broken in ("_load", "_outdated"):
            self.replace(identity("renewed", HOSTS).pem() + broken)
            with patch.object(tls_listeners, broken, side_effect=LookupError), logged_lines() as lines:
                self.node.clock.advance(20)
            self.assertIn("the former certificates stay in use", lines[0])
            self.assertEqual(len(self.flushLoggedErrors(LookupError)), 1)
        self.assertEqual(self.shown_name(), "CN=broker")
        self.node.clock.advance(20)
        self.assertEqual(self.shown_name(), "CN=renewed")

    def test_settings_of_the_listener_change(self) -> None:
        other = self.certificates.with_key("other", identity("other", HOSTS))["ssl.keystore.location"]
        config = self.node.broker.config
        config.set_dynamic(ConfigSource.DYNAMIC_BROKER_CONFIG, {f"{OWN}ssl.keystore.location": other})
        self.assertEqual(self.shown_name(), "CN=other")
        config.set_dynamic(ConfigSource.DYNAMIC_BROKER_CONFIG, {f"{OWN}ssl.client.auth": "required"})
        self.assertEqual(self.tls["SSL"].settings.client_auth, "required")

    def test_a_change_is_tried_when_the_one_before_it_is_stored(self) -> None:
        broker, threads = self.node.broker, self.node.threads
        resource = BrokerResource(broker.config, broker.controller, self.tls, broker_resource(broker.node.id))
        threads.holding = True
        changes = [{f"{OWN}ssl.client.auth": "requested"}, {f"{OWN}ssl.keystore.location": "/none"}]
        first, second = [ensureDeferred(resource.alter(partial(with_changes, each))) for each in changes]
        self.assertEqual(len(threads.held), 1)
        threads.run_one()
        self.successResultOf(first)
        self.assertEqual(broker.config.of_listener(broker.config.listeners[1]).text("ssl.client.auth"), "requested")
        threads.run_one()  # reads the stores again for the first change
        threads.run_one()
        self.failureResultOf(second, KafkaError)

    def test_settings_are_tried_before_they_are_stored(self) -> None:
        self.successResultOf(ensureDeferred(self.tls.check({"log.retention.ms": "1"})))
        self.successResultOf(ensureDeferred(self.tls.check({f"{OWN}ssl.client.auth": "required"})))
        error = self.failureResultOf(ensureDeferred(self.tls.check({f"{OWN}ssl.keystore.location": "/none"})))
        error.trap(ConfigError)
        self.assertIn("listener SSL: ssl.keystore.location: /none: No such file", str(error.value))
        self.assertEqual(self.shown_name(), "CN=broker")
