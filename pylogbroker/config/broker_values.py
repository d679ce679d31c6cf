"""Values of a broker's settings: the rows of all parts, and what follows from several of them."""

from __future__ import annotations

from pylogbroker.config import listeners
from pylogbroker.config.access_settings import AccessRows
from pylogbroker.config.archive_settings import ArchiveRows
from pylogbroker.config.cleaner_settings import CleanerRows
from pylogbroker.config.client_settings import ClientRows
from pylogbroker.config.cluster_settings import ClusterRows
from pylogbroker.config.group_settings import GroupRows
from pylogbroker.config.http_settings import HttpRows, parse_http_endpoints
from pylogbroker.config.log_settings import LogRows
from pylogbroker.config.network_settings import NetworkRows
from pylogbroker.config.quota_settings import QuotaRows
from pylogbroker.config.registry_settings import RegistryRows, parse_registry_endpoints
from pylogbroker.config.security_settings import (
    AuthenticationRows,
    OauthRows,
    SaslRows,
    SecurityRows,
    StoreRows,
    TlsRows,
)
from pylogbroker.config.share_coordinator_settings import ShareCoordinatorRows
from pylogbroker.config.share_settings import ShareRows
from pylogbroker.config.streams_settings import StreamsRows
from pylogbroker.config.token_settings import TokenRows
from pylogbroker.config.transaction_settings import TransactionRows
from pylogbroker.java.text import split_list


class ListenerValues(StoreRows, TlsRows, OauthRows, SaslRows):
    """Values of the settings that may be set for one listener alone."""

    __slots__ = ()

    ssl_client_auth = SecurityRows.ssl_client_auth
    ssl_principal_mapping_rules = SecurityRows.ssl_principal_mapping_rules
    ssl_store_check_interval_ms = SecurityRows.ssl_store_check_interval_ms


class BrokerValues(
    ListenerValues,
    AccessRows,
    ArchiveRows,
    CleanerRows,
    ClientRows,
    GroupRows,
    ShareRows,
    StreamsRows,
    ClusterRows,
    HttpRows,
    RegistryRows,
    LogRows,
    NetworkRows,
    QuotaRows,
    TokenRows,
    TransactionRows,
    ShareCoordinatorRows,
    AuthenticationRows,
    SecurityRows,
):
    """Values of all settings of a broker."""

    __slots__ = ()

    @property
    def log_dirs(self) -> tuple[str, ...]:
        return tuple(path for path in split_list(self.log_dirs_text) if path)

    @property
    def metadata_dir(self) -> str:
        return self.metadata_log_dir or self.log_dirs[0]

    @property
    def address_limits(self) -> dict[str, int]:
        return listeners.parse_address_limits(self.max_connections_per_ip_overrides)

    @property
    def http_listeners(self) -> tuple[listeners.Endpoint, ...]:
        return parse_http_endpoints(self.http_listeners_text or "")

    @property
    def schema_registry_listeners(self) -> tuple[listeners.Endpoint, ...]:
        return parse_registry_endpoints(self.schema_registry_listeners_text or "")

    @property
    def in_cluster(self) -> bool:
        """True if ZooKeeper, or controllers of KRaft, join this broker with others."""
        return bool(self.zookeeper_connect) or self.in_kraft

    @property
    def in_kraft(self) -> bool:
        """True if this broker is a member of a cluster of KRaft controllers."""
        return self.process_roles == ("broker",)

    @property
    def controller_listeners(self) -> tuple[str, ...]:
        """Names of the controllers' listeners."""
        return tuple(name for name in split_list(self.controller_listener_names or "") if name)

    @property
    def offers_kafka_4(self) -> bool:
        """True if API versions of Kafka 4 are offered."""
        release = self.api_versions_release
        return release == "4.4" or (release == "auto" and not self.zookeeper_connect)
