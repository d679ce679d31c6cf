"""Distinguished names of certificates, as Java writes them: RFC 2253.

The most specific part comes first. Attributes other than CN, L, ST, O, OU, C, STREET, DC and UID are written as their
number, and the value as `#` with the hex of its DER. Java escapes `=` and `#` everywhere, which RFC 4514 does not.
"""

from __future__ import annotations

from typing import Final

from cryptography import x509

from pylogbroker.java.text import is_digits

_ESCAPED: Final = ',=+<>#;"\\'
_LONG_FORM: Final = 0x80


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of a certificate in DER; raise ValueError if it cannot be read."""
    subject = x509.load_der_x509_certificate(certificate).subject
    return ",".join("+".join(map(_attribute, part)) for part in reversed(subject.rdns))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    kind, value = attribute.rfc4514_attribute_name, attribute.value
    if is_digits(kind[0]) or isinstance(value, bytes):
        return f"{kind}=#{_der(attribute).hex()}"
    return f"{kind}={_escaped(value)}"


def _escaped(value: str) -> str:
    text = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in value)
    inner = text.strip(" \r")
    start = len(text) - len(text.lstrip(" \r"))
    lead, trail = text[:start], text[start + len(inner) :]
    return "".join(f"\\{char}" for char in lead) + inner + "".join(f"\\{char}" for char in trail)


def _der(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """Return the encoded value: the last element of SEQUENCE { SET { SEQUENCE { OID, value } } }."""
    encoded = x509.Name([attribute]).public_bytes()
    for _ in range(3):
        encoded = encoded[_header_size(encoded) :]
    return encoded[_header_size(encoded) + encoded[1] :]  # OIDs are short


def _header_size(encoded: bytes) -> int:
    return 2 + (encoded[1] & ~_LONG_FORM if encoded[1] & _LONG_FORM else 0)
