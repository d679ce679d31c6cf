"""Consumers of groups: the connector, its streams, and what they are made of.

==================  ========================================================================================
`connector`         the public class; `parts`: what it is made of, as settings say
`streams`           what a program reads messages from
`reading`           the partitions read now, from taking them to giving them up
`feeds`             one of them: what was fetched and not read, and how far everybody is
`fetcher`           keeps feeds filled; `sessions`: fetch sessions; `unpacking`: bytes to messages
`positions`         where reading begins; `looking_up`: offsets by time
`committing`        when which offsets are committed; `offset_stores`: where
`belonging`         membership, either way
`membership`        the group protocol as a state machine; `actions`: what it wants done; `group_member`: does it
`subscription`      what members tell each other of who reads what; who does is said by `pylogbroker.assigning`
`registry`          membership by way of the coordination tree; `registry_plan`: its algorithm
`filters`           topics by regex; `subscribing`: what is subscribed to
==================  ========================================================================================
"""

from pylogbroker.client.consumer.connector import ConsumerConnector
from pylogbroker.client.consumer.filters import Blacklist, Whitelist
from pylogbroker.client.consumer.streams import Stream

__all__ = ["Blacklist", "ConsumerConnector", "Stream", "Whitelist"]
