"""Values that `sampler` notes at regular times while the broker serves."""

from __future__ import annotations

import attrs

from pylogbroker.web.cluster_traffic import ClusterTraffic
from pylogbroker.web.group_lags import GroupLags
from pylogbroker.web.log_ends import LogEnds
from pylogbroker.web.problems import Problems
from pylogbroker.web.topic_rates import TopicRates
from pylogbroker.web.topic_sizes import TopicSizes
from pylogbroker.web.traffic_history import TrafficHistory


@attrs.frozen(eq=False, repr=False)
class Samples:
    topic_rates: TopicRates = attrs.field(factory=TopicRates, init=False)
    topic_sizes: TopicSizes = attrs.field(factory=TopicSizes, init=False)
    cluster_traffic: ClusterTraffic = attrs.field(factory=ClusterTraffic, init=False)
    traffic: TrafficHistory = attrs.field(factory=TrafficHistory, init=False)
    problems: Problems = attrs.field(factory=Problems, init=False)
    group_lags: GroupLags = attrs.field(factory=GroupLags, init=False)
    log_ends: LogEnds = attrs.field(factory=LogEnds, init=False)
