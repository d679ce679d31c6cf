"""Names of certificates as Java writes them, and the rules that map them to principals."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import NameAttribute as Part
from cryptography.x509 import RelativeDistinguishedName as Multiple
from cryptography.x509.oid import NameOID as Kind

from pylogbroker.errors import ConfigError
from pylogbroker.security.principals import NoRule, PrincipalMapping
from pylogbroker.security.tls.authority import Authority
from pylogbroker.security.tls.names import distinguished_name
from tests.java.random_patterns import random_pattern, random_text
from tests.peers.java import Program
from tests.support.oracle_answers import OracleAnswers

AUTHORITY = Authority.create("authority", days=5)
# What `X509Certificate.getSubjectX500Principal().getName()` of Java 17 printed for certificates with these subjects.
NAMES = [
    (
        [
            Part(Kind.COUNTRY_NAME, "DE"),
            Part(Kind.STATE_OR_PROVINCE_NAME, "BY"),
            Part(Kind.LOCALITY_NAME, "Munich"),
            Part(Kind.ORGANIZATION_NAME, "Example"),
            Part(Kind.ORGANIZATIONAL_UNIT_NAME, "Ops"),
            Part(Kind.COMMON_NAME, "alice"),
        ],
        "CN=alice,OU=Ops,O=Example,L=Munich,ST=BY,C=DE",
    ),
    (
        [Part(Kind.ORGANIZATION_NAME, 'a,b=c+d<e>f#g;h"i\\j'), Part(Kind.COMMON_NAME, " #two  spaces  ")],
        r"CN=\ \#two  spaces\ \ ,O=a\,b\=c\+d\<e\>f\#g\;h\"i\\j",
    ),
    (
        [
            Part(Kind.DOMAIN_COMPONENT, "org"),
            Part(Kind.STREET_ADDRESS, "Main St. 1"),
            Part(Kind.EMAIL_ADDRESS, "a@b.org"),
            Part(Kind.SERIAL_NUMBER, "17"),
            Part(Kind.TITLE, "Größe"),
            Part(Kind.USER_ID, "u1"),
            Part(Kind.COMMON_NAME, "Zoë"),
        ],
        "CN=Zoë,UID=u1,2.5.4.12=#0c074772c3b6c39f65,2.5.4.5=#13023137,"
        "1.2.840.113549.1.9.1=#16076140622e6f7267,STREET=Main St. 1,DC=org",
    ),
    (
        [Part(Kind.EMAIL_ADDRESS, "x" * 130 + "@example.org"), Part(Kind.COMMON_NAME, "n")],
        "CN=n,1.2.840.113549.1.9.1=#16818e" + "78" * 130 + "406578616d706c652e6f7267",
    ),
]


def subject_of(subject: x509.Name) -> str:
    return distinguished_name(AUTHORITY.issue(subject).certificate.public_bytes(Encoding.DER))


@pytest.mark.parametrize(("parts", "name"), NAMES)
def test_a_name_is_written_as_java_does(parts: list[Part[str]], name: str) -> None:
    assert subject_of(x509.Name(parts)) == name


def test_parts_of_several_attributes() -> None:
    several = Multiple([Part(Kind.COMMON_NAME, "a"), Part(Kind.USER_ID, "b"), Part(Kind.EMAIL_ADDRESS, "c@d")])
    name = x509.Name([Multiple([Part(Kind.ORGANIZATION_NAME, "O")]), several])
    assert subject_of(name) == "CN=a+UID=b+1.2.840.113549.1.9.1=#1603634064,O=O"


DN = "CN=kafka1,OU=ServiceUsers,O=Unknown,C=Unknown"


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("", DN, DN),
        ("DEFAULT", DN, DN),
        # the examples of Kafka's documentation
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=serviceuser,OU=ServiceUsers,O=x", "serviceuser"),
        (
            "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
            "CN=adminUser,OU=Admin,O=U,L=U,ST=U,C=U",
            "adminuser@admin",
        ),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "O=x,cn=KAFKA.1,OU=y", "kafka.1"),
        ("RULE:^CN=a,.*$/first/, RULE:^CN=(.*?),.*$/$1/U ,DEFAULT", DN, "KAFKA1"),
        ("RULE:^CN=a,.*$/first/, DEFAULT", DN, DN),
        # the whole name must match
        ("RULE:CN=kafka1/found/, DEFAULT", DN, DN),
        # what a reference beyond the groups stands for
        (r"RULE:^CN=(\w+),.*$/$1@$2/", DN, "kafka1@$2"),
        (r"RULE:^CN=(\w+),.*$/$12/", DN, "kafka12"),
        (r"RULE:^CN=(\w+),.*$/a\/b\$1/", DN, "a/b$1"),
        (r"RULE:^CN=(k)(x)?.*$/$1$2!/", DN, "k!"),
    ],
)
def test_rules(rules: str, name: str, principal: str) -> None:
    assert PrincipalMapping.parse(rules).principal(name) == f"User:{principal}"


def test_no_rule_applies() -> None:
    with pytest.raises(NoRule, match=f"no rule of ssl.principal.mapping.rules applies to {DN}"):
        PrincipalMapping.parse("RULE:^CN=nobody$/x/").principal(DN)


@pytest.mark.parametrize("rules", ["default", "RULE:a/b", "RULE:a/b/X", "RULE:(/x/", "DEFAULT DEFAULT", "RULE:a/b/LU"])
def test_bad_rules_are_named(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"^ssl.principal.mapping.rules: "):
        PrincipalMapping.parse(rules)


MAPPER = Program(Path(__file__).parent / "Principals.java", clients="clients-3.9")
RULES = [
    "DEFAULT",
    "  DEFAULT ,RULE:a/b/",
    "RULE:.*/x/,DEFAULT,RULE:a/b/U",
    r"RULE:^CN=([\w.-]+),O=Acme$/$1/L,DEFAULT",
    r"RULE:(?i)^cn=(k\w*)$/$1/",
    r"RULE:^CN=([a-z]+).*$/$1/",
    r"RULE:^CN=([^,]+)/$1/U,DEFAULT",
    r"RULE:(a)(b)?/$2$1$0$3/,DEFAULT",
    r"RULE:(a)/$1$4$5/,DEFAULT",
    r"RULE:(a)/\$4/,DEFAULT",
    r"RULE:(?<who>\w+)/${who}@x/L",
    r"RULE:a/${who}/,DEFAULT",
    r"RULE:a/$1/,DEFAULT",
    r"RULE:a/$/,DEFAULT",
    r"RULE:(a)/$01$10/,DEFAULT",
    r"RULE:a*?/x/,DEFAULT",
    r"RULE:(?:a|b)+?/<$0>/,DEFAULT",
    r"RULE:(.*)/$1/L",
    r"RULE:(.*)/$1/U",
    "RULE:a\u2003/b/",
    "RULE:a/b/ \x0b, DEFAULT",
    "RULE:a/b/\xa0, DEFAULT",
    r"RULE:\bCN=(.*)\b/$1/,DEFAULT",
]
NAMES_TO_MAP = [
    *(
        "a",
        "ab",
        "aab",
        "CN=Kafka,O=Acme",
        "CN=\u212aafka,O=Acme",
        "cn=kafka",
        "CN=k\u017f",
        "cn=\u212aa",
        "CN=kafka\u2028x",
    ),
    *(
        "CN=kafka\n",
        "CN=kafka\r",
        "CN=kafka\x85",
        "CN=é",
        "İI\u0130",
        "ΑΣ ΣΑ.Σ",
        "Straße ŉ ǆ ﬁ",
        "\U0001f600",
        "CN=a\u0301",
        "",
    ),
]


def hex_of(text: str) -> str:
    return text.encode().hex()


def mapped(mapping: PrincipalMapping, name: str) -> str:
    try:
        return "=" + hex_of(mapping.principal(name).removeprefix("User:"))
    except NoRule:
        return "none"


def test_principals_are_those_of_kafka(oracle: OracleAnswers) -> None:
    """Rules that are errors here fail in Kafka too, or have something in them that is not read."""
    random = Random(29)
    cases = [(rules, NAMES_TO_MAP) for rules in RULES]
    for _ in range(500):
        replacement = "".join(random.choice(("$1", "$2", "$0", "x", r"\$", r"\/", "$12", "é")) for _ in range(2))
        pattern = f"({random_pattern(random, 2)})(.*)".replace("/", r"\/")
        rule = f"RULE:{pattern}/{replacement}/{random.choice(('', 'L', 'U'))}"
        cases.append((rule, [random_text(random) for _ in range(5)]))
    question = "".join(" ".join(map(hex_of, (rules, *names))) + "\n" for rules, names in cases)
    answers = oracle.answer("principals", question, lambda: MAPPER.run(input=question).stdout.splitlines())
    compared = wrongly_rejected = 0
    for (rules, names), answer in zip(cases, answers, strict=True):
        try:
            mapping = PrincipalMapping.parse(rules)
        except ConfigError:
            wrongly_rejected += rules in RULES and "error" not in answer.split(" ")
            continue
        for name, theirs in zip(names, answer.split(" "), strict=True):
            assert mapped(mapping, name) == theirs, ascii((rules, name))
            compared += 1
    assert compared > 1000
    assert not wrongly_rejected


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        (r"RULE:(?<=a)b/x/", "look-behind is not read here"),
        (r"RULE:(a)\1/x/", "back references"),
        ("RULE:((a)b)*/$2/", "Java does not say what group 2 is"),
        ("RULE:a/$1/", "the pattern has no such group"),
        ("RULE:(a)/${b}/", "the pattern has no such group"),
        ("RULE:a/$/", "behind '\\$' there must be"),
        ("RULE:(a)/$2$3/", "takes one reference"),
    ],
)
def test_errors_name_the_construct(rules: str, named: str) -> None:
    with pytest.raises(ConfigError, match=rf"^ssl.principal.mapping.rules: the (pattern|replacement) .*{named}"):
        PrincipalMapping.parse(rules)


def test_names_that_take_too_long_have_no_principal() -> None:
    mapping = PrincipalMapping.parse("RULE:.*,.*,.*,.*/x/,DEFAULT")
    assert mapping.principal("a,b") == "User:a,b"
    with pytest.raises(NoRule, match="a name of 20000 characters takes too long to compare"):
        mapping.principal("a" * 20_000)
