"""A worker of Kafka Connect in distributed mode, with its connectors for files."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import attrs

from tests.peers.java_server import JavaServer
from tests.support.waiting import wait_until

TEXTS = "org.apache.kafka.connect.storage.StringConverter"


@attrs.define
class ConnectWorker(JavaServer):
    """`settings` name the brokers; the port is that of the REST interface."""

    main: ClassVar[str] = "org.apache.kafka.connect.cli.ConnectDistributed"
    started: ClassVar[str] = "Finished starting connectors and tasks"

    @property
    def release(self) -> str:
        return "companions-3.9"

    def all_settings(self) -> dict[str, str]:
        """Return the properties of the worker; its own topics have one replica each."""
        topics = {f"{kind}.storage.topic": f"connect-{kind}" for kind in ("config", "offset", "status")}
        factors = {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
        return {
            "group.id": "connect",
            "listeners": f"http://127.0.0.1:{self.port}",
            "key.converter": TEXTS,
            "value.converter": TEXTS,
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "500",
            "plugin.discovery": "only_scan",
            **topics,
            **factors,
            **self.settings,
        }

    def start(self) -> Self:
        """Start the worker; its line is logged by one thread while another registers the resources of REST."""
        super().start()
        wait_until(self._has_resources, self.start_timeout)
        return self

    def _has_resources(self) -> bool:
        try:
            with urlopen(f"http://{self.address}/connectors", timeout=60):
                return True
        except HTTPError as error:
            if error.code == 404:
                return False
            raise

    def create(self, name: str, **settings: str) -> None:
        """Create a connector; `topic_name` is the setting `topic.name`. Raises HTTPError."""
        config = {setting.replace("_", "."): value for setting, value in settings.items()}
        body = json.dumps({"name": name, "config": config}).encode()
        request = Request(f"http://{self.address}/connectors", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=60) as answer:
            json.load(answer)

    def states(self, name: str) -> list[str]:
        """Return the states of the connector's tasks."""
        with urlopen(f"http://{self.address}/connectors/{name}/status", timeout=60) as answer:
            found: Any = json.load(answer)
        return [task["state"] for task in found["tasks"]]
