"""Public plugin interfaces.

    tree                the coordination tree that brokers share; `tree_errors`
    delete_policies     which log segments may be deleted
    remote_storage      where sealed segments of archived topics are kept
    factories           plugins by name, and their creation
    serialization       encoders and decoders
    partitioners        a record's partition
    replication_policies  names of mirrored topics
    events              hooks into a producer's queue
    assignors           partitions of group members; `subscriptions`: their values
    group_assignors     partitions of the members of a consumer group, by the broker
    client_telemetry    metrics that clients push to a broker
    token_providers     a client's tokens of OAUTHBEARER

Each interface documents its threads, units and errors. Names are imported on first use: most programs need few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pylogbroker.lazy_names import lazy_names

if TYPE_CHECKING:
    from pylogbroker.interfaces.assignors import IAssignor, IAssignorFactory
    from pylogbroker.interfaces.client_telemetry import ClientTelemetry, IClientTelemetryReceiver
    from pylogbroker.interfaces.delete_policies import (
        IDeletePolicy,
        IDeletePolicyFactory,
        LogFiles,
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
    from pylogbroker.interfaces.factories import INamed, IPluginFactory
    from pylogbroker.interfaces.group_assignors import IGroupAssignor
    from pylogbroker.interfaces.partitioners import IPartitioner, IPartitionerFactory, IStickyPartitioner
    from pylogbroker.interfaces.remote_storage import IRemoteStorage, IRemoteStorageFactory, StoredObject
    from pylogbroker.interfaces.replication_policies import IReplicationPolicy, IReplicationPolicyFactory
    from pylogbroker.interfaces.serialization import IDecoder, IDecoderFactory, IEncoder, IEncoderFactory
    from pylogbroker.interfaces.subscriptions import Subscription, TopicPartition
    from pylogbroker.interfaces.token_providers import BearerToken, ITokenProvider, ITokenProviderFactory
    from pylogbroker.interfaces.tree import (
        CREATOR_ACL,
        OPEN_ACL,
        READABLE_ACL,
        Acl,
        Changed,
        Check,
        Create,
        DefaultAcl,
        Delete,
        ITree,
        Node,
        Operation,
        OperationResult,
        Permission,
        SessionEvent,
        SessionListener,
        SessionState,
        SetData,
        Stat,
        Watch,
    )
    from pylogbroker.interfaces.tree_errors import (
        BadVersion,
        CoordinationError,
        InvalidAcl,
        NoChildrenForEphemerals,
        NodeExists,
        NoNode,
        NoRoom,
        NotEmpty,
        NotPermitted,
        SessionExpired,
        Unavailable,
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
    "ClientTelemetry",
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
    "IClientTelemetryReceiver",
    "IDecoder",
    "IDecoderFactory",
    "IDeletePolicy",
    "IDeletePolicyFactory",
    "IEncoder",
    "IEncoderFactory",
    "IEventHandler",
    "IEventHandlerFactory",
    "IForwardingEventHandler",
    "IGroupAssignor",
    "INamed",
    "IPartitioner",
    "IPartitionerFactory",
    "IPluginFactory",
    "IRemoteStorage",
    "IRemoteStorageFactory",
    "IReplicationPolicy",
    "IReplicationPolicyFactory",
    "IStickyPartitioner",
    "ITokenProvider",
    "ITokenProviderFactory",
    "ITree",
    "InvalidAcl",
    "LogFiles",
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
    "StoredObject",
    "Subscription",
    "TopicPartition",
    "Unavailable",
    "Watch",
]

_MODULES: Final = {
    "Acl": ".tree",
    "BadVersion": ".tree_errors",
    "BearerToken": ".token_providers",
    "CREATOR_ACL": ".tree",
    "CallbackHandler": ".events",
    "Changed": ".tree",
    "Check": ".tree",
    "ClientTelemetry": ".client_telemetry",
    "CoordinationError": ".tree_errors",
    "Create": ".tree",
    "DefaultAcl": ".tree",
    "Delete": ".tree",
    "Event": ".events",
    "Headers": ".events",
    "IAssignor": ".assignors",
    "IAssignorFactory": ".assignors",
    "ICallbackHandler": ".events",
    "ICallbackHandlerFactory": ".events",
    "IClientTelemetryReceiver": ".client_telemetry",
    "IDecoder": ".serialization",
    "IDecoderFactory": ".serialization",
    "IDeletePolicy": ".delete_policies",
    "IDeletePolicyFactory": ".delete_policies",
    "IEncoder": ".serialization",
    "IEncoderFactory": ".serialization",
    "IEventHandler": ".events",
    "IEventHandlerFactory": ".events",
    "IForwardingEventHandler": ".events",
    "IGroupAssignor": ".group_assignors",
    "INamed": ".factories",
    "IPartitioner": ".partitioners",
    "IPartitionerFactory": ".partitioners",
    "IPluginFactory": ".factories",
    "IRemoteStorage": ".remote_storage",
    "IRemoteStorageFactory": ".remote_storage",
    "IReplicationPolicy": ".replication_policies",
    "IReplicationPolicyFactory": ".replication_policies",
    "IStickyPartitioner": ".partitioners",
    "ITokenProvider": ".token_providers",
    "ITokenProviderFactory": ".token_providers",
    "ITree": ".tree",
    "InvalidAcl": ".tree_errors",
    "LogFiles": ".delete_policies",
    "LogView": ".delete_policies",
    "NoChildrenForEphemerals": ".tree_errors",
    "NoNode": ".tree_errors",
    "NoRoom": ".tree_errors",
    "Node": ".tree",
    "NodeExists": ".tree_errors",
    "NotEmpty": ".tree_errors",
    "NotPermitted": ".tree_errors",
    "OPEN_ACL": ".tree",
    "Operation": ".tree",
    "OperationResult": ".tree",
    "Permission": ".tree",
    "READABLE_ACL": ".tree",
    "SegmentView": ".delete_policies",
    "SessionEvent": ".tree",
    "SessionExpired": ".tree_errors",
    "SessionListener": ".tree",
    "SessionState": ".tree",
    "SetData": ".tree",
    "Stat": ".tree",
    "StoredObject": ".remote_storage",
    "Subscription": ".subscriptions",
    "TopicPartition": ".subscriptions",
    "Unavailable": ".tree_errors",
    "Watch": ".tree",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
