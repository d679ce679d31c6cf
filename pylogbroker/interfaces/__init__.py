"""The public seams: what can be put in place of what is built in.

Each interface says which thread its methods are called on, in which units its numbers are and how it fails.

    coordination        the tree that brokers share
    delete_policies     which segments of a log may go
    factories           how settings name plugins, and how those are made
    serialization       encoders and decoders
    partitioners        which partition a record goes to
    events              a producer's records on their way: event handlers, callback handlers
    assignors           which member of a group reads what
"""

from __future__ import annotations

from pylogbroker.interfaces.assignors import (
    IAssignor,
    IAssignorFactory,
    Subscription,
    TopicPartition,
)
from pylogbroker.interfaces.coordination import (
    BadVersion,
    Changed,
    Check,
    CoordinationError,
    Create,
    Delete,
    ITree,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NoRoom,
    NotEmpty,
    Operation,
    SetData,
    Stat,
    Unavailable,
    Watch,
)
from pylogbroker.interfaces.delete_policies import (
    IDeletePolicy,
    IDeletePolicyFactory,
    LogView,
    SegmentView,
)
from pylogbroker.interfaces.events import (
    CallbackHandler,
    Event,
    Headers,
    ICallbackHandler,
    ICallbackHandlerFactory,
    IEventHandler,
    IEventHandlerFactory,
    IForwardingEventHandler,
)
from pylogbroker.interfaces.factories import (
    INamed,
    IPluginFactory,
)
from pylogbroker.interfaces.partitioners import (
    IPartitioner,
    IPartitionerFactory,
    IStickyPartitioner,
)
from pylogbroker.interfaces.serialization import (
    IDecoder,
    IDecoderFactory,
    IEncoder,
    IEncoderFactory,
)

__all__ = [
    "BadVersion",
    "CallbackHandler",
    "Changed",
    "Check",
    "CoordinationError",
    "Create",
    "Delete",
    "Event",
    "Headers",
    "IAssignor",
    "IAssignorFactory",
    "ICallbackHandler",
    "ICallbackHandlerFactory",
    "IDecoder",
    "IDecoderFactory",
    "IDeletePolicy",
    "IDeletePolicyFactory",
    "IEncoder",
    "IEncoderFactory",
    "IEventHandler",
    "IEventHandlerFactory",
    "IForwardingEventHandler",
    "INamed",
    "IPartitioner",
    "IPartitionerFactory",
    "IPluginFactory",
    "IStickyPartitioner",
    "ITree",
    "LogView",
    "NoChildrenForEphemerals",
    "NoNode",
    "NoRoom",
    "Node",
    "NodeExists",
    "NotEmpty",
    "Operation",
    "SegmentView",
    "SetData",
    "Stat",
    "Subscription",
    "TopicPartition",
    "Unavailable",
    "Watch",
]
