"""Group consumers: the connector, its streams and their parts.

==================  ========================================================================================
`connector`         the public class; `parts`: wiring by settings
`streams`           the interface from which a program reads messages
`reading`           the assigned partitions, from assignment to revocation
`feeds`             fetch buffer and offsets of one partition
`fetcher`           fills the feeds; `sessions`: fetch sessions; `unpacking`: bytes to messages
`positions`         start offsets; `looking_up`: offsets by time
`truncation`        truncation detection after a change of leader
`committing`        when which offsets are committed; `offset_stores`: where
`belonging`         group membership, by brokers or by the coordination tree
`membership`        the group protocol as a state machine; `actions`: its output; `group_member`: its requests
`subscription`      subscriptions and assignments as bytes; `pylogbroker.assignors` has the assignors
`registry`          membership by the coordination tree; `registry_plan`: its algorithm
`filters`           topics by regex; `subscribing`: the subscription of a program
==================  ========================================================================================
"""

from pylogbroker.client.consumer.connector import ConsumerConnector
from pylogbroker.client.consumer.filters import Blacklist, Whitelist
from pylogbroker.client.consumer.streams import Stream

__all__ = ["Blacklist", "ConsumerConnector", "Stream", "Whitelist"]
