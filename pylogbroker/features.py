"""Optional features: the modules that are imported on first use, and why.

This is one of two seams for late imports. The other one is for APIs: `broker.apis`, `wire.messages`. The package
`pylogbroker.cli` imports its commands by name, and `discovery` plugins. All other imports stand at the top of a module;
`tests/lint` has the exceptions.

A module that uses a feature names the late module at its top, once for type checkers and once for Python:

    if TYPE_CHECKING:
        from pylogbroker.offline import backup
    else:
        backup = on_first_use("pylogbroker.offline.backup")

The first attribute that is read, `backup.back_up`, imports the module.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final

_Features = Mapping[str, tuple[str, ...]]

OF_A_BROKER: Final[_Features] = {
    "archived topics in a remote storage": ("pylogbroker.broker.archive.service",),
    "access control and its rules": (
        "pylogbroker.broker.security.authorizer",
        "pylogbroker.broker.security.rules",
    ),
    "zookeeper.connect: a cluster, a fifth of a broker's modules": (
        "pylogbroker.broker.membership.cluster_role",
        "pylogbroker.tree.zookeeper",
        "pylogbroker.tap.zookeeper",
    ),
    "process.roles: a cluster of KRaft controllers": ("pylogbroker.broker.kraft.role",),
    "tools of operators, in a broker that is alone": ("pylogbroker.broker.sole.control",),
    "listeners with TLS": ("pylogbroker.broker.security.listener_tls",),
    "listeners with SASL": (
        "pylogbroker.broker.security.sasl_listeners",
        "pylogbroker.net.sasl_protocol",
    ),
    "OAUTHBEARER with signed tokens": ("pylogbroker.security.sasl.signed_tokens",),
    "TLS to brokers, also a client's": (
        "pylogbroker.security.tls.contexts",
        "pylogbroker.security.tls.settings",
    ),
    "SASL with brokers, also a client's": (
        "pylogbroker.rpc.authentication",
        "pylogbroker.security.sasl.authentication",
        "pylogbroker.security.sasl.credentials",
    ),
    "delegation tokens": ("pylogbroker.broker.security.delegation.manager",),
    "share groups: requests to other brokers": (
        "pylogbroker.broker.share.remote_appends",
        "pylogbroker.broker.share.remote_ends",
        "pylogbroker.broker.share.state_calls",
    ),
    "groups of Kafka Streams": (
        "pylogbroker.broker.coordinators.streams_group_port",
        "pylogbroker.groups.streams.coordination",
        "pylogbroker.groups.streams.replay",
    ),
    "regular expressions of consumer groups": ("pylogbroker.broker.coordinators.topic_expressions",),
    "names that nearly are a setting": ("difflib",),
    "escapes in files of settings": ("javaproperties",),
    "listeners for clients of Kafka 0.7, and requests of such clients elsewhere": (
        "pylogbroker.legacy07.server.connection",
        "pylogbroker.legacy07.wire",
    ),
    "WebSockets that follow a topic": ("pylogbroker.web.records_api.websockets",),
    "an ApiVersions request of a version from the future": ("pylogbroker.broker.apis.api_versions",),
}
"""Modules of a broker's features, by what asks for them. `tap.preload` imports them where files are lost."""

OF_REMOTE_STORAGES: Final[_Features] = {"a remote storage in S3, which needs pyarrow": ("pylogbroker.s3_storage",)}
"""Modules of plugins, which take much memory: `tap.preload` leaves them out."""

OF_STARTS: Final[_Features] = {
    "a server for HTTP, of which the site also needs the files of pages": (
        "pylogbroker.tap.http",
        "pylogbroker.tap.http_site",
    ),
    "schema.registry.listeners": ("pylogbroker.registry.service",),
    "samples for charts, not before the start is over": ("pylogbroker.web.sampler",),
    "a broker in a program, a process that is a broker, and the supervisor of several": (
        "pylogbroker.tap.service",
        "pylogbroker.tap.twistd",
        "pylogbroker.tap.brokers.service",
        "twisted.scripts.twistd",
    ),
    "a process that changes its root directory or its user": ("pylogbroker.tap.preload",),
    "a log in syslog, which not every platform has": ("twisted.python.syslog",),
    "a reactor of the platform's best kind": (
        "twisted.internet.epollreactor",
        "twisted.internet.pollreactor",
    ),
}
"""Modules of a process's start: what it is, and what its platform has."""

OF_CLIENTS: Final[_Features] = {
    "tokens of a plugin, which Twisted finds": (
        "pylogbroker.client.plugin_lookup",
        "pylogbroker.security.sasl.token_choice",
    ),
    "TLS of blocking connections": ("pylogbroker.blocking.tls_socket",),
    "errors of a first contact": ("pylogbroker.blocking.listener_probe",),
    "brokers that a tree of ZooKeeper lists": ("pylogbroker.metadata.zk_schema",),
    "parts of the admin client: a program uses few, each has messages of its own": (
        "pylogbroker.client.admin.acls",
        "pylogbroker.client.admin.cluster_info",
        "pylogbroker.client.admin.configs",
        "pylogbroker.client.admin.groups",
        "pylogbroker.client.admin.quotas",
        "pylogbroker.client.admin.records",
        "pylogbroker.client.admin.replicas",
        "pylogbroker.client.admin.share_groups",
        "pylogbroker.client.admin.streams_groups",
        "pylogbroker.client.admin.tokens",
        "pylogbroker.client.admin.topics",
        "pylogbroker.client.admin.transactions",
        "pylogbroker.client.admin.users",
    ),
}
"""Modules of clients."""

OF_COMMANDS: Final[_Features] = {
    "commands for running clusters: the client, and with it Twisted and the messages": (
        "pylogbroker.cli.batch_producer",
        "pylogbroker.cli.bulk_reader",
        "pylogbroker.cli.group_names",
        "pylogbroker.cli.line_records",
        "pylogbroker.cli.line_sender",
        "pylogbroker.cli.name_queries",
        "pylogbroker.cli.other_tools",
        "pylogbroker.cli.profiles",
        "pylogbroker.cli.remote_storages",
        "pylogbroker.cli.rights",
        "pylogbroker.client.admin",
        "pylogbroker.client.errors",
        "pylogbroker.client.messages",
        "pylogbroker.client.producer",
        "pylogbroker.client.producer.validation",
        "pylogbroker.client.settings",
        "pylogbroker.client.sync",
        "pylogbroker.security.acls.bindings",
        "pylogbroker.blocking.admin",
        "pylogbroker.wire",
    ),
    "records and schemas of a schema registry": (
        "pylogbroker.cli.record_schemas",
        "pylogbroker.cli.registry_address",
        "pylogbroker.schemas.errors",
        "pylogbroker.schemas.registry_client",
    ),
    "mirrors": (
        "pylogbroker.cli.mirror_run",
        "pylogbroker.mirror_records.formats",
        "pylogbroker.mirror_records.status",
        "pylogbroker.mirror.metrics",
    ),
    "commands for files: half a broker": (
        "pylogbroker.offline.backup",
        "pylogbroker.offline.dry_run",
        "pylogbroker.offline.dump",
        "pylogbroker.offline.kafka07_import",
        "pylogbroker.offline.kraft_format",
        "pylogbroker.offline.rebuild",
        "pylogbroker.offline.registry",
        "pylogbroker.offline.registry_import",
        "pylogbroker.offline.stopped_broker",
        "pylogbroker.offline.users",
        "pylogbroker.offline.verification",
        "pylogbroker.offline.zookeeper",
        "pylogbroker.offline.zookeeper.server",
        "pylogbroker.security.sasl.users",
    ),
    "settings in files and options": (
        "pylogbroker.config",
        "pylogbroker.config.properties",
        "pylogbroker.config.topic_settings",
        "tomllib",
    ),
    "secrets of profiles in the system's keyring": ("keyring",),
    "certificates for a trial": ("pylogbroker.security.tls.authority",),
    "a demonstration": ("pylogbroker.testing",),
    "output in other forms than a plain table": (
        "json",
        "rich.console",
        "rich.filesize",
        "rich.progress",
        "rich.table",
        "rich.text",
        "yaml",
    ),
}
"""Modules of commands: help, completion and wrong options do without them."""

OF_SCHEMAS: Final[_Features] = {
    "a registry that settings name": ("pylogbroker.schemas.blocking", "pylogbroker.schemas.endpoint"),
    "types of schemas, each with a library of its own": (
        "pylogbroker.schemas.avro_codec",
        "pylogbroker.schemas.json_codec",
        "pylogbroker.schemas.protobuf_codec",
    ),
}
"""Modules that decode by a schema registry."""

OF_TABLES: Final[_Features] = {
    "SQL on topics, and Arrow and DuckDB with it": (
        "pylogbroker.cli.sql_rows",
        "pylogbroker.table.errors",
        "pylogbroker.table.sql",
        "pylogbroker.table.topic_dataset",
    ),
    "an archive": (
        "pylogbroker.table.archive.archives",
        "pylogbroker.table.archive.iceberg",
        "pylogbroker.table.archive.iceberg_archive",
        "pylogbroker.table.archive.source",
    ),
    "contents by a schema registry": (
        "pylogbroker.table.avro_types",
        "pylogbroker.table.protobuf_types",
        "pylogbroker.table.registry_columns",
    ),
}
"""Modules of tables."""

OF_SPARK: Final[_Features] = {
    "loads": (
        "pylogbroker.spark.loading.job",
        "pylogbroker.spark.loading.load",
        "pylogbroker.spark.loading.mappings",
        "pylogbroker.spark.loading.store",
        "pylogbroker.config.times",
        "pylogbroker.spark.sessions",
    ),
    "reading, or writing: a process of Spark's does one of them": (
        "pylogbroker.spark.reading.batch_reader",
        "pylogbroker.spark.reading.stream_reader",
        "pylogbroker.spark.source",
        "pylogbroker.spark.writing.producer",
        "pylogbroker.spark.writing.sink",
        "pylogbroker.spark.writing.task",
    ),
    "PySpark and Arrow, which take a second": (
        "pyarrow",
        "pyspark.cloudpickle",
        "pyspark.errors",
        "pyspark.sql.functions",
        "pyspark.sql.pandas.types",
    ),
}
"""Modules of Spark's part."""

OF_TESTS: Final[_Features] = {
    "a broker, and what is around it": (
        "pylogbroker.errors",
        "pylogbroker.testing.admin",
        "pylogbroker.testing.broker",
        "pylogbroker.testing.clients",
        "pylogbroker.testing.external",
        "pylogbroker.testing.handle",
    ),
    "controllers of Apache Kafka for test brokers": ("pylogbroker.testing.controllers",),
    "the schema registry of a test broker": ("pylogbroker.testing.schema_registry",),
    "client libraries, of which one is installed": (
        "aiokafka",
        "aiokafka.helpers",
        "confluent_kafka",
        "kafka",
    ),
}
"""Modules of fixtures: a run of pytest without a broker does without them."""

OF_RARE_CASES: Final[_Features] = {
    "names that nearly are a command": ("pylogbroker.config.parsing",),
    "the command that installs a missing extra": ("importlib.metadata",),
    "processors without instructions for CRC-32C": ("crcmod.predefined",),
}
"""Modules for inputs and platforms that most processes do not see."""

TABLES: Final = (
    OF_A_BROKER,
    OF_REMOTE_STORAGES,
    OF_STARTS,
    OF_CLIENTS,
    OF_COMMANDS,
    OF_SCHEMAS,
    OF_TABLES,
    OF_SPARK,
    OF_TESTS,
    OF_RARE_CASES,
)
MODULES: Final = frozenset(module for features in TABLES for modules in features.values() for module in modules)


class _LateModule(ModuleType):
    """Stands for a module until its first attribute is read, and passes all reads on."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # tools that look at all objects must not import it
        return getattr(import_module(self.__name__), name)


def on_first_use(module: str) -> Any:
    """Return what stands for a module of the tables until its first use; raise KeyError for another module."""
    if module not in MODULES:
        raise KeyError(f"{module} is in no table of {__name__}")
    return _LateModule(module)
