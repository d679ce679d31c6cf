"""The broker's settings for its HTTP server."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

from pylogbroker.config.listeners import Endpoint, parse_each_endpoint
from pylogbroker.config.setting import cluster_wide, fixed, rows_of
from pylogbroker.config.value_kinds import (
    BOOLEAN,
    LIST,
    PASSWORD,
    TEXT,
    ConfigType,
    NotAccepted,
    TypedKind,
    at_least,
)
from pylogbroker.config.values import Values

HTTP: Final = "http"
UI_PORTS: Final = range(9192, 9292)
"""Ports of a process without `http.listeners`: the first free one is the address of its web UI."""
_LOOPBACK: Final = "127.0.0.1"
_URL: Final = re.compile(r"([a-zA-Z]+)://(\[[0-9A-Fa-f:.]+\]|[^\s\[\]:/,]*):([0-9]+)/?")


def parse_http_endpoints(text: str) -> tuple[Endpoint, ...]:
    """Parse `http://host:port,...`; raise NotAccepted, or ValueError. No host means loopback."""
    endpoints = tuple(_with_defaults(endpoint) for endpoint in parse_each_endpoint(text, _URL, "http://host:port"))
    addresses = [(endpoint.host, endpoint.port) for endpoint in endpoints if endpoint.port]
    if len(set(addresses)) < len(addresses):
        raise ValueError("an address occurs twice")
    return endpoints


def ui_endpoints(taken: Container[int]) -> tuple[Endpoint, ...]:
    """Return addresses of the web UI to try, the best first, without ports that are needed for something else."""
    return tuple(Endpoint(HTTP, _LOOPBACK, port) for port in UI_PORTS if port not in taken)


def _with_defaults(given: Endpoint) -> Endpoint:
    scheme = given.name.lower()
    if scheme != HTTP:
        raise NotAccepted(f"{scheme} is not served: expected http://host:port; put a proxy with TLS before it")
    return Endpoint(HTTP, given.host or _LOOPBACK, given.port)


_HTTP_LISTENERS = TypedKind[str](
    ConfigType.STRING,
    check=parse_http_endpoints,
    words="http://host:port, separated by commas, each host and port once",
)


_REGISTRY_URL: Final = re.compile(r"https?://[^\s/?#,]+(/[^\s?#,]*)?")


def _check_registry_urls(text: str) -> None:
    """Raise NotAccepted for what are no addresses of a registry."""
    for url in filter(None, (part.strip() for part in text.split(","))):
        if _REGISTRY_URL.fullmatch(url) is None:
            raise NotAccepted("expected http://host:port or https://host:port, separated by commas")


_REGISTRY_URLS = TypedKind[str](
    ConfigType.STRING, check=_check_registry_urls, words="http://host:port, separated by commas"
)


class HttpRows(Values):
    __slots__ = ()

    http_listeners_text = fixed(
        "http.listeners",
        _HTTP_LISTENERS,
        None,
        "medium",
        "Addresses of the HTTP server, which has the web UI, /metrics, /livez and /readyz: http://host:port, separated "
        "by commas. Without the setting, it is at 127.0.0.1:9192, or the next free port; with --brokers, the first "
        "broker has it. An empty value switches it off. A broker within another program has no server unless it is "
        "given. Without a host, as in http://:9464, this machine alone reaches it. Everybody who does may read these, "
        "but the web UI is for connections from this machine alone; it asks for a password if a listener has SASL.",
    )
    http_allowed_hosts = fixed(
        "http.allowed.hosts",
        LIST,
        (),
        "low",
        "Names of this machine that clients of the HTTP server may use, besides localhost, addresses, its own host "
        "name and those of http.listeners. Others are rejected, so that a page of another site cannot read from the "
        "server through a browser.",
    )
    metrics_partitions_enable = cluster_wide(
        "metrics.partitions.enable",
        BOOLEAN,
        True,
        "low",
        "Whether /metrics has metrics of single partitions, and the lag of groups by partition. They are most of the "
        "text: sixteen lines for each partition.",
    )
    http_max_connections = fixed(
        "http.max.connections", at_least(1), 100, "low", "Connections that the HTTP server takes at a time."
    )
    access_control_allow_origin = fixed(
        "access.control.allow.origin",
        LIST,
        (),
        "low",
        "Origins of pages, such as https://shop.example, that browsers let read and write records here (CORS), "
        "separated by commas. * stands for all, whose pages then send no password along. Without the setting, only "
        "pages of this server do.",
    )
    access_control_allow_methods = fixed(
        "access.control.allow.methods",
        LIST,
        (),
        "low",
        "Methods that such pages may use; by default GET, POST and OPTIONS.",
    )
    access_control_allow_headers = fixed(
        "access.control.allow.headers",
        LIST,
        (),
        "low",
        "Headers that such pages may send; by default Accept, Authorization, Content-Type, Idempotency-Key and "
        "Last-Event-ID.",
    )
    schema_registry_url = fixed(
        "schema.registry.url",
        _REGISTRY_URLS,
        None,
        "low",
        "Address of a schema registry with Confluent's interface, or several, which are tried in turn. The web UI "
        "shows Avro, JSON Schema and Protobuf of its serializers as JSON, and searches in it. It needs the extra "
        "registry.",
    )
    schema_registry_basic_auth_user_info = fixed(
        "schema.registry.basic.auth.user.info", PASSWORD, None, "low", "user:password for the schema registry."
    )
    schema_registry_bearer_auth_token = fixed(
        "schema.registry.bearer.auth.token", PASSWORD, None, "low", "Token for the schema registry."
    )
    schema_registry_ssl_ca_location = fixed(
        "schema.registry.ssl.ca.location",
        TEXT,
        None,
        "low",
        "File with the certificates, as PEM, that sign the schema registry's; by default those of the system.",
    )
    schema_registry_ssl_certificate_location = fixed(
        "schema.registry.ssl.certificate.location",
        TEXT,
        None,
        "low",
        "File with the broker's certificate for the schema registry, as PEM.",
    )
    schema_registry_ssl_key_location = fixed(
        "schema.registry.ssl.key.location", TEXT, None, "low", "File with the key of that certificate, as PEM."
    )


HTTP_SETTINGS = rows_of(HttpRows)
