"""Names of certificates as Java writes them, and the rules that map them to principals."""

from __future__ import annotations

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
