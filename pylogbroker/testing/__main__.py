"""A test broker in a process of its own, for tests in other languages.

    python -m pylogbroker.testing --control 127.0.0.1:9099

The first line of its output is JSON: `{"bootstrap": "127.0.0.1:45123", "control": "http://127.0.0.1:9099"}`. If the
brokers cannot start, the line is `{"error": "...", "type": "StartupError"}`, and the status 1.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import click
from twisted.internet.error import CannotListenError

from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.java.text import is_digits
from pylogbroker.tap.brokers.stdin import stop_with_stdin
from pylogbroker.testing.broker import Broker
from pylogbroker.testing.control.commands import Commands
from pylogbroker.testing.control.site import control_site


def _address(context: click.Context, option: click.Parameter, given: str) -> tuple[str, int]:
    host, _, port = given.rpartition(":")
    if not host or not is_digits(port):
        raise click.BadParameter(f"{given!r} is not HOST:PORT")
    return host, int(port)


def _setting(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    for text in given:
        if "=" not in text:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE")
    return dict(pair.split("=", 1) for pair in given)


@click.command(help="Run a broker for tests, controlled by HTTP and JSON: GET /openapi.json describes it.")
@click.option("--control", default="127.0.0.1:0", callback=_address, help="HOST:PORT of the control; port 0: any.")
@click.option("--brokers", default=1, help="Number of brokers.")
@click.option("--override", multiple=True, callback=_setting, help="A setting of the broker: NAME=VALUE.")
@click.option("--user", multiple=True, callback=_setting, help="A user for SASL: NAME=PASSWORD.")
@click.option("--tls", is_flag=True, help="TLS, with certificates made for it: GET /api/client_settings.")
@click.option("--acl", multiple=True, help="An ACL, such as 'alice read topic:orders'; others are denied.")
@click.option("--schema-registry", is_flag=True, help="A schema registry.")
@click.option("--engine", default="own", help="own, or kraft: the brokers join Apache Kafka's controller.")
@click.option("--kafka-home", help="Installation of Apache Kafka for the controller; default KAFKA_HOME.")
@click.option("--child", is_flag=True, help="Read settings as a line of JSON from standard input, and end with it.")
def main(
    control: tuple[str, int],
    brokers: int,
    override: dict[str, str],
    user: dict[str, str],
    tls: bool,
    acl: tuple[str, ...],
    schema_registry: bool,
    engine: str,
    kafka_home: str | None,
    child: bool,
) -> None:
    from twisted.internet import reactor as global_reactor  # the process is only this

    reactor: Any = global_reactor
    host, port = control
    if child:
        override |= json.loads(sys.stdin.readline())
        stop_with_stdin(reactor)
    try:
        with Broker(
            override,
            brokers=brokers,
            users=user,
            tls=tls,
            acls=acl or None,
            schema_registry=schema_registry,
            engine=engine,
            kafka_home=kafka_home,
        ) as broker:
            listening = reactor.listenTCP(port, control_site(reactor, Commands(broker)), interface=host)
            address = {"bootstrap": broker.bootstrap, "control": f"http://{host}:{listening.getHost().port}"}
            if broker.has_schema_registry:
                address["schema_registry"] = broker.schema_registry.url
            reactor.callWhenRunning(lambda: print(json.dumps(address), flush=True))
            reactor.run()
    except (ConfigError, StartupError, CannotListenError) as error:
        print(json.dumps({"error": str(error), "type": type(error).__name__}), flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
