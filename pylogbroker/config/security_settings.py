"""Settings of TLS and SASL, for brokers and clients.

A broker's may be set for one listener alone: `listener.name.<name in lower case>.<setting>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pylogbroker.config.listeners import PLAINTEXT, PROTOCOLS, SIMPLE
from pylogbroker.config.mechanisms import OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512
from pylogbroker.config.setting import Setting, fixed, per_broker, rows_of
from pylogbroker.config.value_kinds import (
    BOOLEAN,
    LIST,
    LONG,
    PASSWORD,
    TEXT,
    VERBATIM_PASSWORD,
    ConfigType,
    TypedKind,
    Value,
    any_of,
    at_least,
    one_of,
)
from pylogbroker.config.values import Values

_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_STORE_TYPE: Final = one_of("PEM", "PKCS12", "JKS")


class StoreRows(Values):
    __slots__ = ()

    ssl_keystore_type = per_broker(
        "ssl.keystore.type",
        _STORE_TYPE,
        "JKS",
        "medium",
        "Format of the key store: PEM or PKCS12. With JKS, the file must be PKCS12, which Java accepts, too.",
    )
    ssl_keystore_location = per_broker(
        "ssl.keystore.location",
        TEXT,
        None,
        "medium",
        "File with the private key, its certificate and the chain. A broker reads it again when it changes.",
    )
    ssl_keystore_password = per_broker(
        "ssl.keystore.password", PASSWORD, None, "medium", "Password of a PKCS12 key store."
    )
    ssl_key_password = per_broker(
        "ssl.key.password", PASSWORD, None, "medium", "Password of an encrypted private key in PEM."
    )
    ssl_keystore_key = per_broker(
        "ssl.keystore.key", PASSWORD, None, "medium", "Private key in PEM (PKCS#8), instead of ssl.keystore.location."
    )
    ssl_keystore_certificate_chain = per_broker(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "medium",
        "Certificate and chain in PEM, for ssl.keystore.key.",
    )
    ssl_truststore_type = per_broker(
        "ssl.truststore.type", _STORE_TYPE, "JKS", "medium", "Format of the trust store: PEM or PKCS12."
    )
    ssl_truststore_location = per_broker(
        "ssl.truststore.location",
        TEXT,
        None,
        "medium",
        "File with the certificates of the authorities to trust. A broker reads it again when it changes.",
    )
    ssl_truststore_password = per_broker(
        "ssl.truststore.password", PASSWORD, None, "medium", "Password of a PKCS12 trust store."
    )
    ssl_truststore_certificates = per_broker(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "medium",
        "Certificates to trust in PEM, instead of ssl.truststore.location.",
    )


_STORES: Final = rows_of(StoreRows)


class TlsRows(Values):
    __slots__ = ()

    ssl_enabled_protocols = per_broker(
        "ssl.enabled.protocols", any_of(*_VERSIONS), _VERSIONS, "medium", "Versions of TLS."
    )
    ssl_cipher_suites = per_broker(
        "ssl.cipher.suites",
        LIST,
        (),
        "medium",
        "Cipher suites, by Java's names or OpenSSL's; if empty, OpenSSL's default. Those of TLS 1.3 are offered all "
        "or none.",
    )
    ssl_endpoint_identification_algorithm = per_broker(
        "ssl.endpoint.identification.algorithm",
        TEXT,
        "https",
        "low",
        "https: a client, and a broker that connects to another, checks that the certificate names the host. Empty: "
        "no check.",
    )


_PROTOCOL: Final = rows_of(TlsRows)
_CLIENT_TLS_SETTINGS: Final[tuple[Setting, ...]] = (*_STORES, *_PROTOCOL)
"""For listeners and clients."""


def _check_protocol(text: str) -> None:
    if text.upper() not in PROTOCOLS or text.upper() == SIMPLE:
        raise ValueError("not offered")


CLIENT_SECURITY_SETTINGS: Final[tuple[Setting, ...]] = (
    fixed(
        "security.protocol",
        TypedKind[str](ConfigType.STRING, check=_check_protocol, words="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        PLAINTEXT,
        "medium",
        "Protocol of connections to brokers: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    ),
    *_CLIENT_TLS_SETTINGS,
    fixed("ssl.ca.location", TEXT, None, "medium", "Trust store in PEM: librdkafka's name of ssl.truststore.location."),
    fixed("ssl.certificate.location", TEXT, None, "medium", "Certificate and chain in PEM, as in librdkafka."),
    fixed("ssl.key.location", TEXT, None, "medium", "Private key in PEM for ssl.certificate.location."),
    fixed("ssl.ca.pem", PASSWORD, None, "medium", "Certificates to trust in PEM: text instead of ssl.ca.location."),
    fixed("ssl.certificate.pem", PASSWORD, None, "medium", "Certificate and chain in PEM: text, as in librdkafka."),
    fixed("ssl.key.pem", PASSWORD, None, "medium", "Private key in PEM for ssl.certificate.pem."),
    fixed(
        "enable.ssl.certificate.verification",
        BOOLEAN,
        True,
        "low",
        "false: any broker is trusted. For tests only.",
    ),
    fixed(
        "sasl.mechanism",
        TEXT,
        None,
        "medium",
        "Mechanism of SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
    ),
    fixed("sasl.mechanisms", TEXT, None, "medium", "librdkafka's name of sasl.mechanism."),
    fixed("sasl.username", TEXT, None, "medium", "User of PLAIN and SCRAM, as in librdkafka."),
    fixed("sasl.password", VERBATIM_PASSWORD, None, "medium", "Password of PLAIN and SCRAM, as in librdkafka."),
    fixed(
        "sasl.jaas.config",
        PASSWORD,
        None,
        "medium",
        'User and password of PLAIN and SCRAM in Java\'s syntax: PlainLoginModule required username="..." '
        'password="..."; or of OAUTHBEARER: OAuthBearerLoginModule required clientId="..." clientSecret="...";',
    ),
    fixed(
        "sasl.oauthbearer.token.provider",
        TEXT,
        None,
        "medium",
        "Token provider of OAUTHBEARER, a plugin: file:PATH, unsecured:SUBJECT, oidc, or an installed one.",
    ),
    fixed(
        "sasl.oauthbearer.method",
        one_of("default", "oidc"),
        "default",
        "medium",
        "oidc: the token provider oidc gets tokens of an issuer. As in librdkafka.",
    ),
    fixed("sasl.oauthbearer.token.endpoint.url", TEXT, None, "medium", "Where the issuer gives tokens to oidc."),
    fixed("sasl.oauthbearer.client.id", TEXT, None, "medium", "Client that asks the issuer for tokens."),
    fixed("sasl.oauthbearer.client.secret", PASSWORD, None, "medium", "Secret of this client."),
    fixed("sasl.oauthbearer.scope", TEXT, None, "medium", "Scope that the issuer is asked for."),
    fixed("https.ca.location", TEXT, None, "medium", "File in PEM with the authorities of the issuer's HTTPS server."),
    fixed("https.ca.pem", TEXT, None, "medium", "Text in PEM, instead of https.ca.location."),
    fixed(
        "enable.sasl.oauthbearer.unsecure.jwt",
        BOOLEAN,
        False,
        "low",
        "true: tokens without a signature, of the principal in sasl.oauthbearer.config. For tests only.",
    ),
    fixed("sasl.oauthbearer.config", TEXT, None, "low", "principal=NAME, for enable.sasl.oauthbearer.unsecure.jwt."),
)
"""For this package's client and Spark's part."""


class OauthRows(Values):
    __slots__ = ()

    sasl_oauthbearer_jwks_endpoint_url = fixed(
        "sasl.oauthbearer.jwks.endpoint.url",
        TEXT,
        None,
        "medium",
        "Public keys of the issuer of tokens (JWKS): file:///PATH, or a URL with https or http.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = fixed(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        at_least(1000, LONG),
        3_600_000,
        "low",
        "How often to read the keys again.",
    )
    sasl_oauthbearer_expected_issuer = fixed(
        "sasl.oauthbearer.expected.issuer", TEXT, None, "low", "Issuer that a token must name, if this is set."
    )
    sasl_oauthbearer_expected_audience = fixed(
        "sasl.oauthbearer.expected.audience",
        LIST,
        None,
        "low",
        "Audiences of which a token must name one, if some are set.",
    )
    sasl_oauthbearer_sub_claim_name = fixed(
        "sasl.oauthbearer.sub.claim.name", TEXT, "sub", "low", "Claim of a token with the name of its user."
    )
    sasl_oauthbearer_clock_skew_seconds = fixed(
        "sasl.oauthbearer.clock.skew.seconds",
        at_least(0),
        30,
        "low",
        "How far the clocks of issuer and broker may differ.",
    )
    sasl_server_callback_handler_class = fixed(
        "sasl.server.callback.handler.class",
        TypedKind[str](ConfigType.CLASS),
        None,
        "medium",
        "With the name of Kafka's OAuthBearerUnsecuredValidatorCallbackHandler, OAUTHBEARER accepts tokens that nobody "
        "has signed: for tests only.",
    )


_OAUTHBEARER: Final = rows_of(OauthRows)


class SaslRows(Values):
    __slots__ = ()

    sasl_enabled_mechanisms = fixed(
        "sasl.enabled.mechanisms",
        any_of(PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER),
        (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512),
        "medium",
        "Mechanisms of SASL that clients may choose.",
    )
    connections_max_reauth_ms = fixed(
        "connections.max.reauth.ms",
        at_least(0, LONG),
        0,
        "medium",
        "Lifetime of a session on a SASL listener, after which a client that has not authenticated again is "
        "disconnected (KIP-368); 0: sessions do not end. It may be set for one mechanism of a listener: "
        "listener.name.<name>.<mechanism>.connections.max.reauth.ms.",
    )
    sasl_jaas_config = fixed(
        "sasl.jaas.config",
        PASSWORD,
        None,
        "medium",
        "Accounts of PLAIN in Java's syntax, the options user_NAME of PlainLoginModule, and username and password of "
        "this broker at others. As a rule set for one listener and mechanism: "
        "listener.name.<name>.plain.sasl.jaas.config.",
    )


_OF_SASL: Final = rows_of(SaslRows)
_SASL: Final = (*_OAUTHBEARER, *_OF_SASL)


class AuthenticationRows(Values):
    __slots__ = ()

    java_security_auth_login_config = fixed(
        "java.security.auth.login.config",
        TEXT,
        None,
        "medium",
        "File of logins in Java's syntax, for listeners without sasl.jaas.config: the section "
        "<name of the listener in lower case>.KafkaServer, or KafkaServer.",
    )
    sasl_mechanism_inter_broker_protocol = fixed(
        "sasl.mechanism.inter.broker.protocol",
        TEXT,
        "GSSAPI",
        "medium",
        "Mechanism with which brokers connect to each other, on a listener with SASL: PLAIN, SCRAM-SHA-256 or "
        "SCRAM-SHA-512. User and password are in sasl.jaas.config.",
    )
    sasl_mechanism_controller_protocol = fixed(
        "sasl.mechanism.controller.protocol",
        TEXT,
        "GSSAPI",
        "high",
        "Mechanism with which a member of a cluster of KRaft controllers connects to them, if their listener has SASL: "
        "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.",
    )
    users = fixed(
        "users",
        TEXT,
        None,
        "medium",
        "File of the users of SASL listeners, a line for each: name:password, or "
        "name:SCRAM-SHA-256$iterations$salt$stored key$server key. It is read again when it changes.",
    )
    users_check_interval_ms = fixed(
        "users.check.interval.ms", at_least(0), 5_000, "low", "How often to look whether users has changed; 0: never."
    )
    sasl_server_max_receive_size = fixed(
        "sasl.server.max.receive.size",
        at_least(1),
        524_288,
        "medium",
        "Largest request or token of a client that is not authenticated, in bytes.",
    )
    connection_failed_authentication_delay_ms = fixed(
        "connection.failed.authentication.delay.ms",
        at_least(0),
        100,
        "low",
        "Time from a client's credentials to the answer that they are wrong, which slows down guesses.",
    )


_AUTHENTICATION: Final = rows_of(AuthenticationRows)
TLS_DEFAULTS: Final[Mapping[str, Value]] = {setting.name: setting.default for setting in _CLIENT_TLS_SETTINGS}


class SecurityRows(Values):
    __slots__ = ()

    ssl_client_auth = per_broker(
        "ssl.client.auth",
        one_of("none", "requested", "required"),
        "none",
        "medium",
        "Whether clients of SSL listeners are asked for a certificate: none, requested, or required. For a SASL_SSL "
        "listener, only the form with listener.name. counts (KIP-684).",
    )
    ssl_principal_mapping_rules = fixed(
        "ssl.principal.mapping.rules",
        TEXT,
        "DEFAULT",
        "low",
        "Rules from a certificate's distinguished name to a principal: RULE:pattern/replacement/ with L or U for lower "
        "or upper case, or DEFAULT, the name itself; separated by commas. The first that matches counts.",
    )
    ssl_store_check_interval_ms = fixed(
        "ssl.store.check.interval.ms",
        at_least(0),
        30_000,
        "low",
        "How often to look whether files of key stores and trust stores have changed; 0: never.",
    )
    connection_setup_timeout_ms = fixed(
        "connection.setup.timeout.ms",
        at_least(1),
        10_000,
        "medium",
        "Time for the TLS handshake and authentication, after which the broker closes a connection.",
    )
    connection_setup_max_per_ip = fixed(
        "connection.setup.max.per.ip",
        at_least(1),
        1000,
        "medium",
        "Maximum number of connections from one address that have not finished the TLS handshake and authentication.",
    )


_SECURITY: Final = rows_of(SecurityRows)

SECURITY_SETTINGS: Final[tuple[Setting, ...]] = (*_CLIENT_TLS_SETTINGS, *_SECURITY, *_SASL, *_AUTHENTICATION)

LISTENER_SETTINGS: Final = tuple(
    setting.name for setting in SECURITY_SETTINGS if setting.name.startswith("ssl.") or setting in _SASL
)
"""Those that may be set for one listener alone."""
