"""Forms that add and remove ACLs: by task, as kafka-acls does for producers and consumers, or one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal, TypedDict, get_args

from pylogbroker.errors import KafkaError
from pylogbroker.rpc.answer_rows import rows_in_order
from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclPermission, AclResourceType, PatternType
from pylogbroker.web.access.acls import KINDS, OneKind, OnePattern, acl_entry
from pylogbroker.web.acl_views import OPERATIONS, AclRow, Operation, add_acl, delete_acl
from pylogbroker.web.changes import after_others
from pylogbroker.web.parameters import Name
from pylogbroker.web.router import BadRequest
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest

Task = Literal["produce", "consume", "manage"]
_TOPIC_OPERATIONS: Final = {
    "produce": (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    "consume": (AclOperation.READ, AclOperation.DESCRIBE),
    "manage": (
        *(AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE),
        *(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
    ),
}
"""Operations of a task on its topics."""
_NAME_OF_CLUSTER: Final = frozenset(("", CLUSTER_NAME))


class NewAcls(TypedDict):
    principal: str
    topic: str
    tasks: list[str]
    kinds: list[str]
    operations: list[str]


class AllowedTask(TypedDict):
    principal: str


async def new_acls(visitor: Visitor, principal: Name = "", topic: Name = "") -> NewAcls:
    """Return what the forms offer."""
    operations = [operation for operation in OPERATIONS if operation != "any"]
    return {
        "principal": principal,
        "topic": topic,
        "tasks": [*get_args(Task)],
        "kinds": [*KINDS],
        "operations": operations,
    }


async def allow_task(
    visitor: Visitor,
    principal: Name,
    task: Annotated[Task, "what the principal shall do"],
    topic: Name,
    topic_pattern: OnePattern = "literal",
    group: Name = "",
    transactional_id: Name = "",
    host: Name = "*",
) -> AllowedTask:
    """Add all ACLs that a principal needs to produce to topics, to consume them, or to manage them."""
    _check_principal(principal)
    if not topic:
        raise BadRequest("write the name of a topic, a part that names begin with, or * for all topics", "topic")
    if task == "consume" and not group:
        raise BadRequest("write the group that the principal consumes with; * stands for every group", "group")
    if task != "consume" and group:
        raise BadRequest(f"to {task} needs no group: leave it empty", "group")
    if task != "produce" and transactional_id:
        raise BadRequest(f"to {task} needs no transactional id: leave it empty", "transactional_id")
    pattern = PatternType[topic_pattern.upper()]
    rows = [
        AclCreation(kind, name, pattern, principal, host or "*", operation, AclPermission.ALLOW)
        for kind, name, pattern, operation in _needed(task, topic, pattern, group, transactional_id)
    ]
    results = rows_in_order(await visitor.ask(CreateAclsRequest(rows)), "results", visitor.services.node.id, len(rows))
    with after_others(sum(not result.error_code for result in results)):
        for result in results:
            raise_for(result.error_code, result.error_message)
    return {"principal": principal}


def _needed(
    task: str, topic: str, pattern: PatternType, group: str, transactional_id: str
) -> Iterator[tuple[AclResourceType, str, PatternType, AclOperation]]:
    for operation in _TOPIC_OPERATIONS[task]:
        yield AclResourceType.TOPIC, topic, pattern, operation
    if group:
        yield AclResourceType.GROUP, group, PatternType.LITERAL, AclOperation.READ
    if transactional_id:
        for operation in (AclOperation.WRITE, AclOperation.DESCRIBE):
            yield AclResourceType.TRANSACTIONAL_ID, transactional_id, PatternType.LITERAL, operation


async def add_acl_of_form(
    visitor: Visitor,
    principal: Name,
    permission: Literal["allow", "deny"],
    operation: Operation,
    resource: OneKind,
    name: Name = "",
    pattern: OnePattern = "literal",
    host: Name = "*",
) -> AclRow:
    """Add one ACL; the cluster needs no name."""
    _check_principal(principal)
    if resource == "cluster":
        if name not in _NAME_OF_CLUSTER:
            raise BadRequest(f"the cluster is named {CLUSTER_NAME}: leave the name empty", "name")
        name, pattern = CLUSTER_NAME, "literal"
    if not name:
        raise BadRequest(f"write the name of the {resource}; * stands for all", "name")
    return await add_acl(visitor, resource, name, principal, operation, pattern, host, permission)


def _check_principal(principal: str) -> None:
    kind, _, name = principal.partition(":")
    if not (kind and name):
        example = f"User:{principal.strip(':') or 'alice'}"
        raise BadRequest(f"a principal has a type and a name, such as {example}; User:* is everybody", "principal")


async def remove_acls(
    visitor: Visitor, principal: Name, resource: OneKind, name: Name, pattern: OnePattern, confirm: Name
) -> AllowedTask:
    """Remove all ACLs of a principal on one resource; the principal is given twice."""
    if confirm != principal:
        raise BadRequest(f"write {principal}, the principal whose ACLs are removed", "confirm")
    for number, acl in enumerate((await acl_entry(visitor, principal, resource, name, pattern))["acls"]):
        with after_others(number):
            try:
                await delete_acl(visitor, **acl)
            except KafkaError as error:
                raise KafkaError(f"{acl['operation']} was not removed: {error.detail}", error.code) from None
    return {"principal": principal}
