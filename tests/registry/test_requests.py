"""Requests to the schema registry by plain HTTP: answers and error codes as Confluent documents them."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from itertools import count
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka.admin import AdminClient
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from pylogbroker import __version__
from pylogbroker.registry.rest.routes import registry_document
from pylogbroker.testing import Broker

JSON: Final = "application/vnd.schemaregistry.v1+json"
ONE: Final = {"schema": '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'}
TWO: Final = {"schema": ONE["schema"].replace("}]}", '},{"name":"b","type":"int","default":0}]}')}
OTHER: Final = {"schema": '"string"'}
_numbers = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(schema_registry=True) as broker:
        yield broker


@pytest.fixture
def subject() -> str:
    return f"subject-{next(_numbers)}"


def raw(broker: Broker, method: str, path: str, content: bytes | None = None) -> tuple[int, str, bytes]:
    request = Request(broker.schema_registry.url + path, content, {"Content-Type": JSON}, method=method)
    try:
        with urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


def ask(broker: Broker, request: str, body: Any = None) -> Any:
    method, path = request.split()
    status, kind, content = raw(broker, method, path, None if body is None else json.dumps(body).encode())
    assert (status, kind) == (200, JSON), content
    return json.loads(content)


def fail(broker: Broker, request: str, body: Any = None) -> tuple[int, str]:
    """Return the error code and the message."""
    method, path = request.split()
    status, kind, content = raw(broker, method, path, None if body is None else json.dumps(body).encode())
    answer = json.loads(content)
    code = answer["error_code"]
    assert kind == JSON
    assert status == (code if code < 1000 else code // 100)
    return code, answer["message"]


def test_the_description_is_served_and_valid(broker: Broker) -> None:
    assert ask(broker, "GET /openapi.json") == registry_document()
    validator = pytest.importorskip("openapi_spec_validator", reason="needs openapi-spec-validator")
    validator.validate(registry_document())


def test_other_methods_are_named(broker: Broker) -> None:
    request = Request(broker.schema_registry.url + "/schemas/types", method="DELETE")
    with pytest.raises(HTTPError) as error:
        urlopen(request, timeout=120)
    assert (error.value.code, error.value.headers["Allow"]) == (405, "GET, HEAD")


def test_versions_and_ids(broker: Broker, subject: str) -> None:
    first = ask(broker, f"POST /subjects/{subject}/versions", ONE)["id"]
    assert ask(broker, f"POST /subjects/{subject}/versions", {"schema": f" {ONE['schema']} "}) == {"id": first}
    second = ask(broker, f"POST /subjects/{subject}/versions", TWO)["id"]
    assert second != first
    assert ask(broker, f"POST /subjects/{subject}-more/versions", ONE) == {"id": first}
    assert ask(broker, f"GET /subjects/{subject}/versions") == [1, 2]
    assert ask(broker, f"GET /subjects?subjectPrefix={subject}") == [subject, f"{subject}-more"]
    latest = {"subject": subject, "version": 2, "id": second, **TWO}
    assert ask(broker, f"GET /subjects/{subject}/versions/latest") == latest
    assert ask(broker, f"GET /subjects/{subject}/versions/2") == latest
    assert ask(broker, f"POST /subjects/{subject}", TWO) == latest
    assert ask(broker, f"GET /schemas/ids/{first}") == ONE
    assert ask(broker, f"GET /schemas/ids/{first}/schema") == json.loads(ONE["schema"])
    assert ask(broker, f"GET /schemas/ids/{first}/subjects") == [subject, f"{subject}-more"]
    assert ask(broker, f"GET /schemas/ids/{first}?includeSubjects=True")["subjects"] == [subject, f"{subject}-more"]
    assert ask(broker, f"GET /schemas/ids/{second}/versions") == [{"subject": subject, "version": 2}]
    assert ask(broker, f"GET /schemas?subjectPrefix={subject}&latestOnly=true")[0] == latest
    assert sorted(ask(broker, "GET /schemas/types")) == ["AVRO", "JSON", "PROTOBUF"]


def test_ids_of_the_registry(broker: Broker) -> None:
    scope = ask(broker, "GET /v1/metadata/id")["scope"]
    cluster = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60).cluster_id
    assert scope == {"path": [], "clusters": {"kafka-cluster": cluster, "schema-registry-cluster": "schema-registry"}}
    assert ask(broker, "GET /v1/metadata/version") == {"version": __version__, "commitId": ""}
    assert ask(broker, "GET /v1/metadata/deployment") == {"attributes": []}
    assert ask(broker, "POST /", {}) == ask(broker, "GET /") == {}


def test_paths_that_are_not_served_say_so(broker: Broker) -> None:
    for path, reason in (
        ("exporters", "no exporters; to copy its schemas, mirror the topic _schemas"),
        ("exporters/e/status", "no exporters"),
        ("associations:batch", "no associations"),
        ("dek-registry/v1/keks", "no encryption keys"),
        ("clusterconfig", "those of its broker"),
    ):
        code, message = fail(broker, f"GET /{path}")
        assert (code, message.startswith("HTTP 404 Not Found: ")) == (404, True)
        assert reason in message


def test_parts_of_lists(broker: Broker, subject: str) -> None:
    names = [f"{subject}-{number}" for number in range(4)]
    [identifier] = {ask(broker, f"POST /subjects/{name}/versions", ONE)["id"] for name in names}
    every = ask(broker, f"GET /schemas/ids/{identifier}/subjects")
    assert ask(broker, f"GET /schemas/ids/{identifier}/subjects?offset=1&limit=2") == every[1:3]
    versions = ask(broker, f"GET /schemas/ids/{identifier}/versions")
    assert ask(broker, f"GET /schemas/ids/{identifier}/versions?offset=2") == versions[2:]
    union = {"schema": '["R"]', "references": [{"name": "R", "subject": names[0], "version": 1}]}
    referrers = [ask(broker, f"POST /subjects/{subject}-{part}/versions", union)["id"] for part in "ab"]
    assert ask(broker, f"GET /subjects/{names[0]}/versions/1/referencedby?limit=1") == referrers[:1]
    ask(broker, f"POST /subjects/:.{subject}:s/versions", ONE)
    assert ask(broker, f"GET /contexts?contextPrefix=.{subject}") == [f".{subject}"]


def test_contracts_are_returned_as_they_were_sent(broker: Broker, subject: str) -> None:
    rule = {
        "name": "mask",
        "doc": "hides it",
        "kind": "TRANSFORM",
        "mode": "WRITEREAD",
        "type": "CEL_FIELD",
        "tags": ["PII"],
        "params": {"a": "1"},
        "expr": "value + 'x'",
        "onSuccess": "NONE,NONE",
        "onFailure": "ERROR,DLQ",
        "disabled": True,
    }
    migration = {
        "name": "up",
        "kind": "TRANSFORM",
        "mode": "UPGRADE",
        "type": "JSONATA",
        "expr": "$",
        "disabled": False,
    }
    contract = {
        "metadata": {"tags": {"R.a": ["PII"]}, "properties": {"owner": "é"}, "sensitive": ["owner"]},
        "ruleSet": {"domainRules": [rule], "migrationRules": [migration], "encodingRules": [], "enableAt": "now"},
    }
    identifier = ask(broker, f"POST /subjects/{subject}/versions", {**ONE, **contract})["id"]
    for path in (f"subjects/{subject}/versions/1", f"schemas/ids/{identifier}"):
        stored = ask(broker, f"GET /{path}")
        assert stored["metadata"] == contract["metadata"]
        assert {name: rules for name, rules in contract["ruleSet"].items() if rules} == stored["ruleSet"]
    settings = {
        "normalize": True,
        "alias": "other",
        "compatibilityGroup": "major",
        "defaultRuleSet": contract["ruleSet"],
    }
    settings |= {"overrideMetadata": contract["metadata"], "defaultMetadata": contract["metadata"]}
    ask(broker, f"PUT /config/{subject}", settings)
    assert ask(broker, f"GET /config/{subject}") == {"compatibilityLevel": "BACKWARD", **settings}


def test_names_with_special_characters(broker: Broker) -> None:
    ask(broker, "POST /subjects/a%2Fb%20%C3%A9/versions", OTHER)
    assert "a/b é" in ask(broker, "GET /subjects")


def test_deletion(broker: Broker, subject: str) -> None:
    identifier = ask(broker, f"POST /subjects/{subject}/versions", ONE)["id"]
    ask(broker, f"POST /subjects/{subject}/versions", TWO)
    assert fail(broker, f"DELETE /subjects/{subject}/versions/1?permanent=true")[0] == 40407
    assert ask(broker, f"DELETE /subjects/{subject}/versions/1") == 1
    assert fail(broker, f"DELETE /subjects/{subject}/versions/1")[0] == 40406
    assert ask(broker, f"GET /subjects/{subject}/versions") == [2]
    assert ask(broker, f"GET /subjects/{subject}/versions?deleted=true") == [1, 2]
    assert ask(broker, f"GET /schemas/ids/{identifier}") == ONE
    assert fail(broker, f"DELETE /subjects/{subject}?permanent=true")[0] == 40405
    assert ask(broker, f"DELETE /subjects/{subject}") == [2]
    assert fail(broker, f"DELETE /subjects/{subject}")[0] == 40404
    assert fail(broker, f"GET /subjects/{subject}/versions")[0] == 40401
    assert ask(broker, f"GET /subjects?deletedOnly=true&subjectPrefix={subject}") == [subject]
    assert ask(broker, f"POST /subjects/{subject}/versions", ONE) == {"id": identifier}
    assert ask(broker, f"GET /subjects/{subject}/versions") == [3]
    assert ask(broker, f"DELETE /subjects/{subject}") == [3]
    assert ask(broker, f"DELETE /subjects/{subject}?permanent=true") == [2, 3]
    assert fail(broker, f"GET /subjects/{subject}/versions?deleted=true")[0] == 40401


def test_references(broker: Broker, subject: str) -> None:
    ask(broker, f"POST /subjects/{subject}-r/versions", ONE)
    references = [{"name": "R", "subject": f"{subject}-r", "version": 1}]
    using = {"schema": '{"type":"array","items":"R"}', "references": references}
    assert fail(broker, f"POST /subjects/{subject}/versions", {"schema": using["schema"]})[0] == 42201
    missing = using | {"references": [references[0] | {"version": 7}]}
    assert "No schema reference found" in fail(broker, f"POST /subjects/{subject}/versions", missing)[1]
    identifier = ask(broker, f"POST /subjects/{subject}/versions", using)["id"]
    assert ask(broker, f"GET /schemas/ids/{identifier}") == using
    assert ask(broker, f"GET /subjects/{subject}-r/versions/1/referencedby") == [identifier]
    assert fail(broker, f"DELETE /subjects/{subject}-r/versions/1")[0] == 42206
    assert fail(broker, f"DELETE /subjects/{subject}-r")[0] == 42206


def test_compatibility(broker: Broker, subject: str) -> None:
    path = f"/compatibility/subjects/{subject}/versions"
    assert ask(broker, f"POST {path}/latest", OTHER) == {"is_compatible": True}
    assert fail(broker, f"POST {path}/1", OTHER)[0] == 40402
    ask(broker, f"POST /subjects/{subject}/versions", ONE)
    assert fail(broker, f"POST {path}/2", OTHER)[0] == 40402
    assert ask(broker, f"POST {path}/latest", TWO) == {"is_compatible": True}
    assert ask(broker, f"POST {path}", OTHER) == {"is_compatible": False}
    messages = ask(broker, f"POST {path}/1?verbose=true", OTHER)["messages"]
    assert messages[0].startswith("TYPE_MISMATCH")
    assert messages[1:] == ["{oldSchemaVersion: 1}", "{compatibility: 'BACKWARD'}"]
    code, message = fail(broker, f"POST /subjects/{subject}/versions", OTHER)
    assert code == 409
    assert "TYPE_MISMATCH" in message
    assert fail(broker, f"POST /subjects/{subject}/versions", {"schema": "{}", "schemaType": "JSON"})[0] == 409
    assert ask(broker, f"PUT /config/{subject}", {"compatibility": "none"}) == {"compatibility": "NONE"}
    ask(broker, f"POST /subjects/{subject}/versions", OTHER)
    assert ask(broker, f"GET /config/{subject}") == {"compatibilityLevel": "NONE"}
    assert ask(broker, f"DELETE /config/{subject}") == {"compatibilityLevel": "NONE"}
    assert fail(broker, f"GET /config/{subject}")[0] == 40408
    assert ask(broker, f"GET /config/{subject}?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    assert ask(broker, "GET /config") == {"compatibilityLevel": "BACKWARD"}
    assert fail(broker, "PUT /config", {"compatibility": "SIDEWAYS"})[0] == 42203


def test_modes(broker: Broker, subject: str) -> None:
    assert ask(broker, "GET /mode") == {"mode": "READWRITE"}
    assert fail(broker, f"GET /mode/{subject}")[0] == 40409
    assert fail(broker, f"PUT /mode/{subject}", {"mode": "WRITE"})[0] == 42204
    assert fail(broker, f"POST /subjects/{subject}/versions", ONE | {"id": 999})[0] == 42205
    assert ask(broker, f"PUT /mode/{subject}", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    imported = {"schema": '"bytes"', "id": 5000, "version": 7}
    assert ask(broker, f"POST /subjects/{subject}/versions", imported) == {"id": 5000}
    assert ask(broker, f"GET /subjects/{subject}/versions") == [7]
    assert fail(broker, f"POST /subjects/{subject}/versions", ONE | {"id": 5000})[0] == 42205
    assert fail(broker, f"POST /subjects/{subject}/versions", ONE)[0] == 42205
    assert ask(broker, f"PUT /mode/{subject}", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert fail(broker, f"PUT /mode/{subject}", {"mode": "IMPORT"})[0] == 42205
    assert ask(broker, f"PUT /mode/{subject}?force=true", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    assert ask(broker, f"PUT /mode/{subject}", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert fail(broker, f"POST /subjects/{subject}/versions", ONE)[0] == 42205
    assert fail(broker, f"DELETE /subjects/{subject}")[0] == 42205
    assert ask(broker, f"DELETE /mode/{subject}") == {"mode": "READONLY"}


@pytest.mark.parametrize(
    ("request_line", "body", "code"),
    [
        ("GET /subjects/missing/versions/1", None, 40401),
        ("GET /subjects/known/versions/2", None, 40402),
        ("GET /subjects/known/versions/0", None, 42202),
        ("GET /subjects/known/versions/first", None, 42202),
        ("GET /subjects/known/versions/99999999999", None, 42202),
        ("POST /subjects/missing", OTHER, 40401),
        ("POST /subjects/known", ONE, 40403),
        ("GET /schemas/ids/123456", None, 40403),
        ("GET /schemas/ids/first", None, 404),
        ("POST /subjects/known/versions", {}, 42201),
        ("POST /subjects/known/versions", {"schema": "{"}, 42201),
        ("POST /subjects/known/versions", {"schema": 7}, 422),
        ("POST /subjects/known/versions", {"schema": "{}", "references": [{"name": "n"}]}, 422),
        ("POST /subjects/known/versions", {"schema": "{}", "schemaType": "XML"}, 42201),
        ("POST /subjects/known/versions", {**OTHER, "metadata": {"properties": {"a": 7}}}, 422),
        ("POST /subjects/known/versions", {**OTHER, "ruleSet": {"domainRules": [{"name": "r"}]}}, 42210),
        ("POST /subjects/__GLOBAL/versions", OTHER, 42208),
        ("GET /schemas/guids/first", None, 40403),
        ("POST /subjects/known/versions", [], 400),
        ("GET /unknown", None, 404),
        ("PUT /subjects", {}, 405),
    ],
)
def test_errors(broker: Broker, request_line: str, body: Any, code: int) -> None:
    ask(broker, "POST /subjects/known/versions", OTHER)
    assert fail(broker, request_line, body)[0] == code


def test_a_body_that_is_no_json(broker: Broker) -> None:
    status, _, content = raw(broker, "POST", "/subjects/known/versions", b"{")
    assert (status, json.loads(content)["error_code"]) == (400, 400)


def test_protobuf_files_that_are_known_without_a_reference(broker: Broker, subject: str) -> None:
    imports = 'import "confluent/meta.proto"; import "confluent/type/decimal.proto"; import "google/type/color.proto";'
    fields = 'confluent.type.Decimal price = 1 [(confluent.field_meta).doc = "net"]; google.type.Color color = 2;'
    text = {"schema": f'syntax = "proto3"; {imports} message M {{ {fields} }}', "schemaType": "PROTOBUF"}
    identifier = ask(broker, f"POST /subjects/{subject}/versions", text)["id"]
    serialized = ask(broker, f"GET /schemas/ids/{identifier}?format=serialized")["schema"]
    assert ask(broker, f"POST /subjects/{subject}", text | {"schema": serialized})["id"] == identifier
    code, _ = fail(broker, f"POST /subjects/{subject}-2/versions", text | {"schema": 'import "confluent/other.proto";'})
    assert code == 42201


def test_protobuf(broker: Broker, subject: str) -> None:
    text = {"schema": 'syntax = "proto3"; message M { int32 an_id = 1; }', "schemaType": "PROTOBUF"}
    identifier = ask(broker, f"POST /subjects/{subject}/versions", text)["id"]
    assert ask(broker, f"GET /schemas/ids/{identifier}") == text
    commented = text | {"schema": f"// the same\n{text['schema']}"}
    assert ask(broker, f"POST /subjects/{subject}/versions", commented) == {"id": identifier}
    serialized = ask(broker, f"GET /schemas/ids/{identifier}?format=serialized")["schema"]
    assert ask(broker, f"POST /subjects/{subject}", text | {"schema": serialized})["id"] == identifier
    file = FileDescriptorProto.FromString(b64decode(serialized))
    file.message_type[0].field[0].ClearField("json_name")  # as serializers of Python and Java give it
    bare = b64encode(file.SerializeToString()).decode()
    assert ask(broker, f"POST /subjects/{subject}/versions", text | {"schema": bare}) == {"id": identifier}
    code, message = fail(broker, f"POST /subjects/{subject}/versions", text | {"schema": 'syntax = "proto3";'})
    assert (code, "MESSAGE_REMOVED" in message) == (409, True)
    code, message = fail(broker, f"POST /subjects/{subject}/versions", text | {"schema": "message {"})
    assert code == 42201


def test_contexts_have_ids_of_their_own(broker: Broker, subject: str) -> None:
    ask(broker, f"POST /subjects/{subject}/versions", ONE)
    context = f":.{subject}:"
    assert ask(broker, f"POST /subjects/{context}s/versions", {"schema": '"long"'}) == {"id": 1}
    assert ask(broker, f"POST /contexts/.{subject}/subjects/t/versions", OTHER) == {"id": 2}
    assert f".{subject}" in ask(broker, "GET /contexts")
    assert ask(broker, f"GET /subjects?subjectPrefix={context}") == [f"{context}s", f"{context}t"]
    assert ask(broker, f"GET /contexts/{subject}/subjects") == [f"{context}s", f"{context}t"]
    assert ask(broker, f"GET /contexts/{subject}/schemas/ids/1") == {"schema": '"long"'}
    assert ask(broker, f"GET /schemas/ids/2?subject={context}") == OTHER
    assert ask(broker, f"GET /subjects/{context}t/versions/latest")["subject"] == f"{context}t"
    assert ask(broker, f"PUT /contexts/{subject}/config", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
    assert ask(broker, f"GET /config/{context}") == {"compatibilityLevel": "NONE"}
    assert ask(broker, f"GET /config/{context}t?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
    assert fail(broker, f"DELETE /contexts/{context}")[0] == 42211
    for name in "st":
        ask(broker, f"DELETE /subjects/{context}{name}")
        ask(broker, f"DELETE /subjects/{context}{name}?permanent=true")
    assert raw(broker, "DELETE", f"/contexts/{context}")[0] == 204
    assert f".{subject}" not in ask(broker, "GET /contexts")


def test_metadata_and_rules(broker: Broker, subject: str) -> None:
    path = f"/subjects/{subject}"
    first = ask(broker, f"POST {path}/versions", OTHER | {"metadata": {"properties": {"owner": "a"}}})["id"]
    assert ask(broker, f"POST {path}/versions", OTHER) == {"id": first}  # it has the metadata of the version before
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]}
    changed = {"metadata": {"properties": {"owner": "b"}}, "ruleSet": rules}
    second = ask(broker, f"POST {path}/versions", changed)["id"]
    assert second != first
    latest = ask(broker, f"GET {path}/versions/latest")
    assert latest == {"subject": subject, "version": 2, "id": second, **OTHER, **changed}
    assert ask(broker, f"GET {path}/metadata?key=owner&value=a")["version"] == 1
    assert fail(broker, f"GET {path}/metadata?key=owner&value=c")[0] == 40403
    override = {"compatibility": "NONE", "overrideMetadata": {"properties": {"team": "x"}}}
    assert ask(broker, f"PUT /config/{subject}", override) == override
    ask(broker, f"POST {path}/versions", ONE)
    properties = ask(broker, f"GET {path}/versions/latest")["metadata"]["properties"]
    assert properties == {"owner": "b", "team": "x"}


def test_compatibility_groups_and_aliases(broker: Broker, subject: str) -> None:
    ask(broker, f"PUT /config/{subject}", {"compatibilityGroup": "major"})
    versions = [{**text, "metadata": {"properties": {"major": group}}} for text, group in ((ONE, "1"), (OTHER, "2"))]
    for version in versions:
        ask(broker, f"POST /subjects/{subject}/versions", version)
    assert fail(broker, f"POST /subjects/{subject}/versions", OTHER | {"metadata": versions[0]["metadata"]})[0] == 409
    ask(broker, f"PUT /config/{subject}-alias", {"alias": subject})
    assert ask(broker, f"GET /subjects/{subject}-alias/versions/1")["subject"] == subject


def test_normalized_schemas_are_the_same(broker: Broker, subject: str) -> None:
    swapped = {"schema": '{"name":"R","type":"record","fields":[{"type":"int","name":"a"}]}'}
    first = ask(broker, f"POST /subjects/{subject}/versions?normalize=true", ONE)["id"]
    assert ask(broker, f"POST /subjects/{subject}/versions?normalize=true", swapped) == {"id": first}
    ask(broker, f"PUT /config/{subject}", {"normalize": True})
    assert ask(broker, f"POST /subjects/{subject}", swapped)["id"] == first


def test_new_members_only_for_clients_that_accept_them(broker: Broker, subject: str) -> None:
    url = f"{broker.schema_registry.url}/subjects/{subject}/versions"
    headers = {"Content-Type": JSON, "Confluent-Accept-Unknown-Properties": "true"}
    with urlopen(Request(url, json.dumps(OTHER).encode(), headers), timeout=120) as answer:
        registered = json.load(answer)
    assert registered["version"] == 1
    assert ask(broker, f"GET /schemas/guids/{registered['guid']}") == OTHER
    assert {"context": ".", "id": registered["id"]} in ask(broker, f"GET /schemas/guids/{registered['guid']}/ids")
    assert ask(broker, f"GET /schemas/ids/{registered['id']}") == OTHER


def test_references_in_their_places(broker: Broker, subject: str) -> None:
    ask(broker, f"POST /subjects/{subject}-r/versions", ONE)
    references = [{"name": "R", "subject": f"{subject}-r", "version": -1}]
    using = {"schema": '{"type":"array","items":"R"}', "references": references}
    identifier = ask(broker, f"POST /subjects/{subject}/versions", using)["id"]
    assert ask(broker, f"GET /schemas/ids/{identifier}")["references"][0]["version"] == 1
    resolved = ask(broker, f"GET /schemas/ids/{identifier}?format=resolved")["schema"]
    assert json.loads(resolved) == {"type": "array", "items": json.loads(ONE["schema"])}
    assert ask(broker, f"POST /subjects/{subject}", {"schema": resolved})["id"] == identifier
    assert fail(broker, f"GET /schemas/ids/{identifier}?format=other")[0] == 400


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}', "twice"),
        ('{"type":"record","name":"R","namespace":"a-b","fields":[]}', "is no name"),
        ('{"type":"record","name":"1R","fields":[]}', "is no name"),
        ('["int","int"]', "int twice"),
        ('["null",["int"]]', "within another"),
    ],
)
def test_avro_schemas_that_are_forbidden_are_rejected(broker: Broker, subject: str, schema: str, reason: str) -> None:
    code, message = fail(broker, f"POST /subjects/{subject}/versions", {"schema": schema})
    assert (code, reason in message) == (42201, True), message


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Accept": "text/xml"}, 406),
        ({"Accept": "application/json"}, 200),
        ({"Accept": "text/html, */*;q=0.1"}, 200),
        ({"Content-Type": "text/csv"}, 415),
    ],
)
def test_types_of_bodies(broker: Broker, headers: dict[str, str], status: int) -> None:
    url = f"{broker.schema_registry.url}/subjects/types/versions"
    request = Request(url, json.dumps(OTHER).encode(), {"Content-Type": JSON} | headers)
    try:
        with urlopen(request, timeout=120) as answer:
            assert answer.status == status
    except HTTPError as error:
        assert (error.code, json.load(error)["error_code"]) == (status, status)  # noqa: PT017 - either outcome
