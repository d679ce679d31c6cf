"""Configurations of logs, which the logs of many topics share."""

from __future__ import annotations

from unittest.mock import patch

from twisted.internet.defer import ensureDeferred

from pylogbroker.broker.partitions.log_config import log_config
from pylogbroker.storage.log import log
from tests.broker.nodes import NodeTests


class SharedConfigTests(NodeTests):
    def test_equal_settings_have_one_configuration(self) -> None:
        config = self.node.broker.config
        first, second, other = (config.topic({"segment.ms": ms}) for ms in ("5000", "5000", "6000"))
        self.assertIs(log_config(first), log_config(second))
        self.assertIsNot(log_config(first), log_config(other))

    def test_a_log_is_configured_only_if_its_settings_change(self) -> None:
        self.node.create("t", 3)
        partitions = self.node.broker.partitions
        with patch.object(log, "preparation_of", wraps=log.preparation_of) as prepared:
            self.successResultOf(ensureDeferred(partitions.settings.apply(self.node.broker.metadata.topics["t"])))
        prepared.assert_not_called()
