"""Requests to a registry: framing, what is wrong with it, credentials, TLS, and several addresses."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import Schema as TheirSchema
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.common.serde import SchemaId

from pylogbroker.errors import ConfigError
from pylogbroker.schemas.blocking import BlockingExchange, blocking_client
from pylogbroker.schemas.endpoint import CA, CERTIFICATE, KEY, TOKEN, URL, USER_INFO, RegistryEndpoint
from pylogbroker.schemas.errors import InvalidSchema, RegistryDenied, RegistryUnavailable, UnknownSchema
from pylogbroker.schemas.framing import FramedContent, decoded_indexes, encoded_indexes, frame_of, framed
from pylogbroker.schemas.names import subject_of
from pylogbroker.schemas.registry_client import RegistryClient, blocking
from pylogbroker.schemas.values import Reference, Schema
from tests.support.certificates import authority, identity

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answer: Callable[[str, str | None], tuple[int, bytes]]

    def do_GET(self) -> None:
        status, body = type(self).answer(self.path, self.headers["Authorization"])
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(
    answer: Callable[[str, str | None], tuple[int, bytes]], context: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Serve what a function answers to a path and an authorization; yield HOST:PORT."""
    handler = type("Handler", (_Handler,), {"answer": staticmethod(answer)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def client(settings: dict[str, str]) -> RegistryClient:
    endpoint = RegistryEndpoint.of(settings)
    assert endpoint is not None
    return blocking_client(endpoint, 60)


def by_id(settings: dict[str, str], schema_id: int = 1) -> Schema:
    return blocking(client(settings).by_id(schema_id)).schema


STRING = json.dumps({"schema": '"string"'}).encode()


def test_frames() -> None:
    assert framed(17, b"x") == b"\0\0\0\0\x11x"
    assert frame_of(b"\0\0\0\0\x11x", (), "key") == FramedContent(17, b"x")
    for content in (b"", b"\0\0\0\0", b'{"a": 1}', b"\x01\0\0\0\x11x"):
        assert frame_of(content, (), "value") is None
    header = b"\x01" + GUID.bytes
    assert frame_of(b"x", [("__value_schema_id", header)], "value") == FramedContent(GUID, b"x", b"")
    assert frame_of(b"x", [("__value_schema_id", header)], "key") is None
    assert frame_of(b"x", [("__value_schema_id", header[:-1]), ("__value_schema_id", None)], "value") is None


def test_frames_are_those_of_confluent_s_client() -> None:
    for indexes in ([0], [1], [2, 0, 300]):
        theirs = SchemaId("PROTOBUF", 17, str(GUID), indexes)
        frame = frame_of(theirs.id_to_bytes() + b"x", (), "value")
        assert frame == FramedContent(17, encoded_indexes(indexes) + b"x")
        assert decoded_indexes(frame.payload) == (indexes, len(frame.payload) - 1)
        headers: list[tuple[str, bytes | None]] = [("__key_schema_id", theirs.guid_to_bytes())]
        assert frame_of(b"x", headers, "key") == FramedContent(GUID, b"x", encoded_indexes(indexes))
    assert callable(header_schema_id_serializer)


def test_subjects_and_versions(theirs: SchemaRegistryClient, ours: RegistryClient) -> None:
    schema_id = blocking(ours.register("a b/c", Schema('"string"')))
    assert schema_id == theirs.get_latest_version("a b/c").schema_id
    assert blocking(ours.look_up("a b/c", Schema('"string"'))) == schema_id
    assert blocking(ours.version("a b/c", "latest")).id == schema_id
    assert blocking(ours.versions_of(schema_id)) == [("a b/c", 1)]
    assert blocking(ours.versions_of(999)) == []
    assert blocking(ours.by_key(schema_id)).schema == Schema('"string"')


def test_circles_of_references_end() -> None:
    schema = json.dumps(
        {"schema": '"A"', "references": [{"name": "A", "subject": "a", "version": 1}], "subject": "a"}
        | {"version": 1, "id": 1}
    ).encode()
    with serving(lambda path, _: (200, schema)) as address:
        assert by_id({URL: f"http://{address}"}).references == (Reference("A", "a", 1),)


def test_errors_name_unknown_schemas_and_subjects(theirs: SchemaRegistryClient, ours: RegistryClient) -> None:
    theirs.register_schema("known", TheirSchema('"string"', "AVRO"))
    with pytest.raises(UnknownSchema, match=r"at http://127.0.0.1:\d+ has no schema 999: it was deleted, or another"):
        blocking(ours.by_id(999))
    with pytest.raises(UnknownSchema, match="has no subject nothing"):
        blocking(ours.version("nothing", "latest"))
    with pytest.raises(UnknownSchema, match=r"has no such schema in subject known.*--register"):
        blocking(ours.look_up("known", Schema('"long"')))
    with pytest.raises(InvalidSchema, match=r"rejects subject known: .*incompatible"):
        blocking(ours.register("known", Schema('"long"')))


def test_a_registry_that_is_away() -> None:
    with serving(lambda path, _: (200, STRING)) as address:
        pass
    with pytest.raises(RegistryUnavailable, match=f"at http://{address} is not reached: Connection refused"):
        by_id({URL: address})


def test_other_servers_are_no_registry() -> None:
    for status, body, problem in (
        (200, b"<html>", "there is no schema registry at .*: its answer is no JSON"),
        (404, b"<html>", "there is no schema registry at .*: /schemas/ids/1 gets status 404"),
        (200, b"[]", "is not understood"),
        (200, b'{"schema": 5}', "is not understood"),
        (500, b'{"error_code": 50001, "message": "no disk"}', "failed with status 500: no disk"),
        (302, b"", "no JSON|status 302"),
    ):
        answer = (status, body)
        with serving(lambda path, _, answer=answer: answer) as address, pytest.raises(RegistryUnavailable) as error:  # type: ignore[misc]
            by_id({URL: address})
        assert re.search(problem, str(error.value))


@pytest.mark.parametrize(
    ("settings", "authorization"),
    [
        ({USER_INFO: "alice:se:cret"}, "Basic YWxpY2U6c2U6Y3JldA=="),
        ({TOKEN: "abc"}, "Bearer abc"),
    ],
)
def test_credentials(settings: dict[str, str], authorization: str) -> None:
    def answer(path: str, given: str | None) -> tuple[int, bytes]:
        return (200, STRING) if given == authorization else (401, b"")

    with serving(answer) as address:
        assert by_id({URL: address, **settings}).text == '"string"'
        with pytest.raises(RegistryDenied, match=r"the credentials are wrong, or missing: see schema\.registry\.basic"):
            by_id({URL: address})


def test_credentials_in_the_address_are_not_shown() -> None:
    endpoint = RegistryEndpoint.of({URL: "http://alice:se%3Acret@one:1/base/,https://[::1]"})
    assert endpoint is not None
    assert [address.url for address in endpoint.addresses] == ["http://one:1/base", "https://[::1]"]
    assert [address.headers().get("Authorization") for address in endpoint.addresses] == [
        "Basic YWxpY2U6c2U6Y3JldA==",
        None,
    ]
    assert "YWxp" not in repr(endpoint)
    with pytest.raises(ConfigError) as error:
        RegistryEndpoint.of({URL: "ftp://alice:secret@host"})
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({URL: "http://"}, "expected http://HOST:PORT"),
        ({URL: "http://a:b"}, "expected http://HOST:PORT"),
        ({URL: "http://a/?x"}, "expected http://HOST:PORT"),
        ({URL: "http://a\r\nx"}, "expected http://HOST:PORT"),
        ({TOKEN: "x"}, "needs schema.registry.url"),
        ({URL: "http://a", "schema.registry.user": "x"}, "schema.registry.user is no setting: those of a registry are"),
        ({URL: "http://a", TOKEN: "x", USER_INFO: "a:b"}, "one kind of credentials"),
        ({URL: "http://a", USER_INFO: "a"}, "expected user:password"),
        ({URL: "http://a", TOKEN: "x\ny"}, "control character"),
        ({URL: "http://a", TOKEN: "\u00e9"}, "expected ASCII characters without spaces"),
        ({URL: "http://a", TOKEN: "a b"}, "expected ASCII characters without spaces"),
        ({URL: "http://a", USER_INFO: "a:\udcff"}, "it is not UTF-8"),
        ({URL: "http://a,http://u:p@b", TOKEN: "x"}, "one kind of credentials"),
        ({URL: f"http://{'x' * 64}.example"}, "expected http://HOST:PORT"),
        ({URL: "http://a..b"}, "expected http://HOST:PORT"),
    ],
)
def test_wrong_settings(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        RegistryEndpoint.of(settings)


def test_without_settings_there_is_no_endpoint() -> None:
    assert RegistryEndpoint.of({}) is None


def test_tls(tmp_path: Path) -> None:
    server, own, trust = tmp_path / "server.pem", tmp_path / "own.pem", tmp_path / "authority.pem"
    server.write_text(identity("registry", ("127.0.0.1",)).pem())
    own.write_text(identity("client").pem())
    trust.write_text(authority().identity.certificate_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(trust))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(server)
    with serving(lambda path, _: (200, STRING), context) as address:
        settings = {URL: f"https://{address}", CA: str(trust), CERTIFICATE: str(own), KEY: str(own)}
        assert by_id(settings).text == '"string"'
        with pytest.raises(
            RegistryUnavailable, match=r"not trusted .*: name its authority by schema\.registry\.ssl\.ca"
        ):
            by_id({URL: f"https://{address}"})
    with pytest.raises(ConfigError, match=r"schema\.registry\.ssl\.ca\.location.* cannot be used"):
        by_id({URL: "https://127.0.0.1:1", CA: str(tmp_path / "nothing.pem")})


def test_several_addresses() -> None:
    with serving(lambda path, _: (200, STRING)) as gone:
        pass
    with serving(lambda path, _: (200, STRING)) as address:
        own = client({URL: f"http://{gone},http://{address}"})
        for schema_id in (1, 2):
            assert blocking(own.by_id(schema_id)).schema.text == '"string"'


def reference(name: str, number: int) -> dict[str, object]:
    return {"name": name, "subject": name, "version": number}


@pytest.mark.parametrize(
    "body",
    [
        b"null",
        b"5",
        b'"text"',
        b"[" * 100_000,
        b'{"schema": "a", "schemaType": ["AVRO"]}',
        b'{"schema": "a", "schemaType": 5}',
        b'{"schema": "a", "references": 5}',
        b'{"schema": "a", "references": {"a": 5}}',
        b'{"schema": "a", "references": ["a"]}',
        b'{"schema": "a", "references": [{"name": 5, "subject": "a", "version": 1}]}',
        b'{"schema": "a", "references": [{"name": "a", "subject": ["a"], "version": 1}]}',
        b'{"schema": "a", "references": [{"name": "a", "subject": "a", "version": 1e400}]}',
        b'{"schema": "a", "references": [{"name": "a", "subject": "a", "version": "1"}]}',
        b'{"schema": "a", "references": [{"name": "a", "subject": "a", "version": true}]}',
        b'{"schema": "a", "references": [{"name": "a", "subject": "a", "version": 4294967296}]}',
        b'{"schema": "a", "references": [{"name": "a\\u0000", "subject": "a", "version": 1}]}',
        b'{"schema": "a", "references": [' + b"{}," * 10_000 + b"{}]}",
        b'{"schema": "' + b"x" * 17_000_000 + b'"}',
    ],
)
def test_answers_that_are_not_understood(body: bytes) -> None:
    with serving(lambda path, _: (200, body)) as address, pytest.raises(RegistryUnavailable) as error:
        by_id({URL: address})
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("number", ["-1", "2147483648", "1.5", "true", '"7"', "null", "1e400", "[]"])
def test_ids_of_more_than_32_bits_and_others_that_are_none(number: str) -> None:
    body = f'{{"subject": "a", "version": 1, "id": {number}, "schema": "a"}}'.encode()
    with serving(lambda path, _: (200, body)) as address:
        own = client({URL: address})
        with pytest.raises(RegistryUnavailable, match="is not understood"):
            blocking(own.version("a", "latest"))
    with serving(lambda path, _: (200, body)) as address, pytest.raises(RegistryUnavailable, match="is not understood"):
        blocking(client({URL: address}).register("a", Schema("a")))


@pytest.mark.parametrize("body", [b"5", b"{}", b"[5]", b'[{"subject": 5, "version": 1}]'])
def test_versions_of_a_schema_are_none_if_they_are_not_understood(body: bytes) -> None:
    with serving(lambda path, _: (200, body)) as address:
        assert blocking(client({URL: address}).versions_of(1)) == []


def chain(text: str) -> Callable[[str, str | None], tuple[int, bytes]]:
    """Answer with schemas each of which refers to the next one, without an end."""

    def answer(path: str, given: str | None) -> tuple[int, bytes]:
        match = re.search("/subjects/s([0-9]+)/", path)
        number = 0 if match is None else int(match[1])
        fields = {"schema": text, "references": [reference(f"s{number + 1}", 1)], "subject": "s", "version": 1, "id": 1}
        return 200, json.dumps(fields).encode()

    return answer


def test_references_are_bounded_in_number_and_size_and_time() -> None:
    with serving(chain("a")) as address, pytest.raises(InvalidSchema, match="refers to more than 200 others"):
        by_id({URL: address})
    with (
        serving(chain("x" * 1_000_000)) as address,
        pytest.raises(InvalidSchema, match="more than 16777216 characters"),
    ):
        by_id({URL: address})
    times = iter(range(0, 1000, 4))
    with serving(chain("a")) as address:
        endpoint = RegistryEndpoint.of({URL: address})
        assert endpoint is not None
        own = RegistryClient(BlockingExchange(endpoint, 60), address, 30, lambda: next(times))
        with pytest.raises(RegistryUnavailable, match="took more than 30 s for the references of a schema"):
            blocking(own.by_id(1))
    assert next(times) == 36


@pytest.mark.parametrize("start", [b"H", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"])
def test_a_registry_that_answers_byte_by_byte_is_not_waited_for(start: bytes) -> None:
    is_over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(start)
            while not is_over.wait(0.01):
                connection.sendall(b" ")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        endpoint = RegistryEndpoint.of({URL: f"127.0.0.1:{listener.getsockname()[1]}"})
        assert endpoint is not None
        with pytest.raises(RegistryUnavailable, match="it does not answer"):
            blocking(blocking_client(endpoint, 0.3).by_id(1))
    finally:
        is_over.set()
        thread.join()
        listener.close()


def test_credentials_in_an_address_go_to_no_other() -> None:
    given: dict[str, list[str | None]] = {"first": [], "second": [], "third": []}

    def answering(name: str, status: int) -> Callable[[str, str | None], tuple[int, bytes]]:
        def answer(path: str, authorization: str | None) -> tuple[int, bytes]:
            given[name].append(authorization)
            return status, STRING

        return answer

    with (
        serving(answering("first", 200)) as first,
        serving(answering("second", 200)) as second,
        serving(answering("third", 200)) as third,
    ):
        for order in ((first, f"b:x@{second}", f"c:y@{third}"), (f"b:x@{second}", first), (f"c:y@{third}", first)):
            by_id({URL: ",".join(f"http://{address}" for address in order)})
            by_id({URL: ",".join(f"http://{address}" for address in order), USER_INFO: "a:z"})
    assert given == {
        "first": [None, "Basic YTp6"],
        "second": ["Basic Yjp4", "Basic Yjp4"],
        "third": ["Basic Yzp5", "Basic Yzp5"],
    }
    endpoint = RegistryEndpoint.of({URL: "http://b:x@one,http://two"})
    assert endpoint is not None
    assert [address.authorization for address in endpoint.addresses] == ["Basic Yjp4", None]


def test_paths_and_hosts_that_are_not_ascii() -> None:
    paths: list[str] = []

    def answer(path: str, given: str | None) -> tuple[int, bytes]:
        paths.append(path)
        return 200, STRING

    with serving(answer) as address:
        by_id({URL: f"http://{address}/d\u00e9p\u00f4t%20a/"})
    assert paths == ["/d%C3%A9p%C3%B4t%20a/schemas/ids/1"]
    endpoint = RegistryEndpoint.of({URL: "http://b\u00fccher.example:1"})
    assert endpoint is not None
    assert endpoint.where == "http://xn--bcher-kva.example:1"


def test_subject_strategies() -> None:
    assert subject_of("topic", "orders", "value", "") == "orders-value"
    assert subject_of("record", "orders", "value", "shop.Order") == "shop.Order"
    assert subject_of("topic-record", "orders", "key", "shop.Order") == "orders-shop.Order"
    with pytest.raises(ConfigError, match="needs a schema with a name"):
        subject_of("record", "orders", "value", "")
