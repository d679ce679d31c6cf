"""Public plugin interfaces.

    coordination        the tree that brokers share
    delete_policies     which log segments may be deleted
    factories           plugins by name, and their creation
    serialization       encoders and decoders
    partitioners        a record's partition
    events              hooks into a producer's queue
    assignors           partitions of group members
    token_providers     a client's tokens of OAUTHBEARER

Each interface documents its threads, units and errors.
"""

from __future__ import annotations

from pylogbroker.interfaces.assignors import (
    IAssignor,
    IAssignorFactory,
    Subscription,
    TopicPartition,
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
from pylogbroker.interfaces.token_providers import (
    BearerToken,
    ITokenProvider,
    ITokenProviderFactory,
)
from pylogbroker.interfaces.tree import (
    CREATOR_ACL,
    OPEN_ACL,
    READABLE_ACL,
    Acl,
    BadVersion,
    Changed,
    Check,
    CoordinationError,
    Create,
    DefaultAcl,
    Delete,
    InvalidAcl,
    ITree,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NoRoom,
    NotEmpty,
    NotPermitted,
    Operation,
    OperationResult,
    Permission,
    SessionEvent,
    SessionExpired,
    SessionListener,
    SessionState,
    SetData,
    Stat,
    Unavailable,
    Watch,
)

__all__ = [
    "CREATOR_ACL",
    "OPEN_ACL",
    "READABLE_ACL",
    "Acl",
    "BadVersion",
    "BearerToken",
    "CallbackHandler",
    "Changed",
    "Check",
    "CoordinationError",
    "Create",
    "DefaultAcl",
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
    "ITokenProvider",
    "ITokenProviderFactory",
    "ITree",
    "InvalidAcl",
    "LogView",
    "NoChildrenForEphemerals",
    "NoNode",
    "NoRoom",
    "Node",
    "NodeExists",
    "NotEmpty",
    "NotPermitted",
    "Operation",
    "OperationResult",
    "Permission",
    "SegmentView",
    "SessionEvent",
    "SessionExpired",
    "SessionListener",
    "SessionState",
    "SetData",
    "Stat",
    "Subscription",
    "TopicPartition",
    "Unavailable",
    "Watch",
]
