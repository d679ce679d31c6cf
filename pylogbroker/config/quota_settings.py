"""The broker's settings for quotas; the quotas themselves are set by AlterClientQuotas."""

from __future__ import annotations

from pylogbroker.config.setting import cluster_wide, fixed, rows_of
from pylogbroker.config.value_kinds import INT_MAX, at_least
from pylogbroker.config.values import Values


class QuotaRows(Values):
    __slots__ = ()

    quota_window_num = fixed(
        "quota.window.num",
        at_least(1),
        11,
        "low",
        "Windows over which the use of quotas is measured. A client that was idle may use its quota of all but one of "
        "them at once.",
    )
    quota_window_size_seconds = fixed("quota.window.size.seconds", at_least(1), 1, "low", "Length of such a window.")
    controller_quota_window_num = fixed(
        "controller.quota.window.num",
        at_least(1),
        11,
        "low",
        "Windows whose quota of created and deleted partitions may be used at once.",
    )
    controller_quota_window_size_seconds = fixed(
        "controller.quota.window.size.seconds", at_least(1), 1, "low", "Length of such a window."
    )
    max_connection_creation_rate = cluster_wide(
        "max.connection.creation.rate",
        at_least(0),
        INT_MAX,
        "medium",
        "Connections that may be created per second; beyond that, they are accepted later. Also for one listener: "
        "listener.name.<name>.max.connection.creation.rate.",
    )


QUOTA_SETTINGS = rows_of(QuotaRows)
