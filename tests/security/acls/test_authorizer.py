"""The authorizer against a naive one, and against Kafka's StandardAuthorizer."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.security.acls.authorizer import Authorizer, kafka_host
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from pylogbroker.security.acls.index import AclIndex
from tests.peers.java import Program
from tests.security.acls.random_acls import Case, Check, random_case
from tests.support.budget import Budget
from tests.support.oracle_answers import OracleAnswers

PROGRAM = Program(Path(__file__).with_name("Authorizations.java"), "kafka-3.9")
CHECKS_OF_CASE = 50
GIVES = {
    "DESCRIBE": {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER", "ALL"},
    "DESCRIBE_CONFIGS": {"DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALL"},
}


def naive(case: Case, check: Check) -> bool:
    """Decide as the rules read, one ACL after the other."""
    if check.principal in case.super_users:
        return True
    covering = []
    for each in case.bindings:
        on = each.resource
        is_prefix = on.pattern.name == "PREFIXED" and (check.name or "")[: len(on.name)] == on.name
        is_literal = on.pattern.name == "LITERAL" and on.name in ["*", check.name]
        if on.type == check.type and (is_prefix or is_literal):
            covering.append(each.entry)
    if not covering:
        return case.allow_everyone
    mine = [
        each for each in covering if each.principal in [check.principal, "User:*"] and each.host in [check.host, "*"]
    ]
    wanted = check.operation.name
    denied = [each for each in mine if each.permission.name == "DENY" and each.operation.name in [wanted, "ALL"]]
    allowing = GIVES.get(wanted, {wanted, "ALL"})
    allowed = [each for each in mine if each.permission.name == "ALLOW" and each.operation.name in allowing]
    return bool(allowed) and not denied


@given(st.randoms(use_true_random=False))
def test_decisions_match_a_naive_authorizer(random: Random) -> None:
    case = random_case(random, 12, CHECKS_OF_CASE)
    authorizer = Authorizer(AclIndex.of(case.bindings), case.super_users, case.allow_everyone)
    for check in case.checks:
        if check.name is not None:
            assert check.answer(authorizer) is naive(case, check), (case.bindings, check)


@given(st.randoms(use_true_random=False))
def test_an_index_may_grow_and_shrink_by_resources(random: Random) -> None:
    before, after = random_case(random, 12, 0), random_case(random, 12, 0)
    wanted = AclIndex.of(after.bindings)
    changed = {each.resource: wanted.entries(each.resource) for each in (*before.bindings, *after.bindings)}
    index = AclIndex.of(before.bindings).with_entries(changed)
    assert set(index.select(AclFilter())) == set(after.bindings)
    for name in ("a", "abcd", "*", "zz"):
        for kind in AclResourceType:
            assert len(list(index.covering(kind, name))) == len(list(wanted.covering(kind, name)))


@given(st.randoms(use_true_random=False))
def test_filters_select_exactly_the_matching_bindings(random: Random) -> None:
    bindings = random_case(random, 12, 0).bindings
    index = AclIndex.of(bindings)
    for pattern in PatternType:
        for each in bindings:
            wanted = AclFilter(each.resource.type, each.resource.name, pattern, each.entry.principal)
            matching = {
                binding
                for binding in bindings
                if wanted.matches_resource(binding.resource) and wanted.matches_entry(binding.entry)
            }
            assert set(index.select(wanted)) == matching


def test_kafka_decides_alike(oracle: OracleAnswers) -> None:
    random = Random(3)
    cases = [random_case(random, 25, CHECKS_OF_CASE) for _ in range(40)]
    question = "".join(case.question() for case in cases)
    verdicts = oracle.answer("authorizations", question, lambda: PROGRAM.run(input=question).stdout.strip())
    assert "".join(case.answers() for case in cases) == verdicts


def test_kafka_decides_alike_on_many(budget: Budget) -> None:
    random = budget.chance("authorizations")
    cases = [random_case(random, 25, CHECKS_OF_CASE) for _ in range(budget.of(100, 2000))]
    verdicts = PROGRAM.run(input="".join(case.question() for case in cases)).stdout.strip()
    assert verdicts.count("+") > len(verdicts) / 10
    for number, case in enumerate(cases):
        said = verdicts[number * CHECKS_OF_CASE : (number + 1) * CHECKS_OF_CASE]
        wrong = [check for check, ours, theirs in zip(case.checks, case.answers(), said, strict=True) if ours != theirs]
        assert not wrong, (case, wrong)


def entry(operation: AclOperation, permission: AclPermission = AclPermission.ALLOW) -> AccessControlEntry:
    return AccessControlEntry("User:alice", "*", operation, permission)


def test_operations_are_bits() -> None:
    topic = ResourcePattern(AclResourceType.TOPIC, "t", PatternType.PREFIXED)
    index = AclIndex.of([AclBinding(topic, entry(AclOperation.READ))])
    assert Authorizer(index).operations("User:alice", "h", AclResourceType.TOPIC, "t1") == 1 << 3 | 1 << 8
    everyone = Authorizer(allow_everyone=True)
    full = {AclResourceType.TOPIC: 3576, AclResourceType.GROUP: 3400, AclResourceType.CLUSTER: 8096}
    assert {kind: everyone.operations("User:alice", "h", kind, "x") for kind in full} == full


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("fe80::a0b:1%eth0", "fe80:0:0:0:0:0:a0b:1%eth0"),
        ("", ""),
    ],
)
def test_hosts_are_written_as_java_writes_them(address: str, host: str) -> None:
    assert kafka_host(address) == host
