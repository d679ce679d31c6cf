"""Errors: Kafka's error codes as data, and the exceptions that carry them.

The dispatch of `pylogbroker.net` answers a `KafkaError` with its code; a `ProtocolViolation` closes the connection.
Codes, names and retriability follow Kafka's protocol guide, "Error codes".
"""

from __future__ import annotations

from enum import Enum, IntEnum

__all__ = [
    "ConfigError",
    "CorruptRecords",
    "ErrorCode",
    "InvalidRecords",
    "KafkaError",
    "OffsetOutOfRange",
    "ProtocolViolation",
    "PylogbrokerError",
    "RejectionReason",
    "StartupError",
    "StorageFailure",
]


class ErrorCode(IntEnum):
    retriable: bool
    meaning: str

    def __new__(cls, code: int, retriable: bool, meaning: str) -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.meaning = meaning
        return member

    UNKNOWN_SERVER_ERROR = -1, False, "the broker failed in a way it did not foresee"
    NONE = 0, False, "no error"
    OFFSET_OUT_OF_RANGE = 1, False, "the offset is below the log's start or beyond its end"
    CORRUPT_MESSAGE = 2, True, "the records fail their checksum, exceed their size or are otherwise damaged"
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "this broker has no such topic or partition"
    INVALID_FETCH_SIZE = 4, False, "the requested fetch size is invalid"
    LEADER_NOT_AVAILABLE = 5, True, "the partition has no leader now"
    NOT_LEADER_OR_FOLLOWER = 6, True, "this broker does not lead (or follow) the partition"
    REQUEST_TIMED_OUT = 7, True, "the time given in the request passed"
    BROKER_NOT_AVAILABLE = 8, False, "no such broker is available"
    REPLICA_NOT_AVAILABLE = 9, True, "the replica is not available on that broker"
    MESSAGE_TOO_LARGE = 10, False, "the batch is larger than max.message.bytes"
    STALE_CONTROLLER_EPOCH = 11, False, "the controller that asked has been replaced"
    OFFSET_METADATA_TOO_LARGE = 12, False, "the metadata of the committed offset is too long"
    NETWORK_EXCEPTION = 13, True, "the connection ended before an answer came"
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "the coordinator is loading its state"
    COORDINATOR_NOT_AVAILABLE = 15, True, "the coordinator is not available"
    NOT_COORDINATOR = 16, True, "this broker does not coordinate that group or transaction"
    INVALID_TOPIC_EXCEPTION = 17, False, "the topic's name is illegal, or clients may not write to it"
    RECORD_LIST_TOO_LARGE = 18, False, "the records are larger than a segment"
    NOT_ENOUGH_REPLICAS = 19, True, "fewer replicas are in sync than min.insync.replicas"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, True, "written, but to fewer in-sync replicas than required"
    INVALID_REQUIRED_ACKS = 21, False, "acks must be 0, 1 or -1 (all)"
    ILLEGAL_GENERATION = 22, False, "the generation is not the group's present one"
    INCONSISTENT_GROUP_PROTOCOL = 23, False, "no assignment protocol in common with the group's other members"
    INVALID_GROUP_ID = 24, False, "the group id is empty or not valid"
    UNKNOWN_MEMBER_ID = 25, False, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, False, "the session timeout is outside the broker's bounds"
    REBALANCE_IN_PROGRESS = 27, False, "the group is rebalancing: join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "the offset's commit record is too large"
    TOPIC_AUTHORIZATION_FAILED = 29, False, "not allowed to use the topic"
    GROUP_AUTHORIZATION_FAILED = 30, False, "not allowed to use the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "not allowed to do this to the cluster"
    INVALID_TIMESTAMP = 32, False, "a record's timestamp is outside the topic's bounds"
    UNSUPPORTED_SASL_MECHANISM = 33, False, "the SASL mechanism is not enabled"
    ILLEGAL_SASL_STATE = 34, False, "the request does not fit the authentication's state"
    UNSUPPORTED_VERSION = 35, False, "the API's version is not supported"
    TOPIC_ALREADY_EXISTS = 36, False, "a topic of that name exists"
    INVALID_PARTITIONS = 37, False, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, False, "the replication factor is not positive or exceeds the brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, False, "the replica assignment is not valid"
    INVALID_CONFIG = 40, False, "a setting is unknown or has a bad value"
    NOT_CONTROLLER = 41, True, "this broker is not the controller"
    INVALID_REQUEST = 42, False, "the request contradicts itself or lacks something"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "the topic's message format cannot express this"
    POLICY_VIOLATION = 44, False, "a policy of the broker rejects this"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "a batch of an idempotent producer is missing before this one"
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "the batch was written before and its offset is no longer known"
    INVALID_PRODUCER_EPOCH = 47, False, "a producer with a newer epoch has taken over"
    INVALID_TXN_STATE = 48, False, "the transaction's state does not allow this"
    INVALID_PRODUCER_ID_MAPPING = 49, False, "the producer id does not belong to the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, False, "the transaction timeout exceeds the broker's maximum"
    CONCURRENT_TRANSACTIONS = 51, True, "the previous transaction is still being completed"
    TRANSACTION_COORDINATOR_FENCED = 52, False, "the transaction coordinator has been replaced"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "not allowed to use the transactional id"
    SECURITY_DISABLED = 54, False, "no authorizer is configured"
    OPERATION_NOT_ATTEMPTED = 55, False, "not tried, because an operation before it failed"
    KAFKA_STORAGE_ERROR = 56, True, "the disk of the log's directory failed"
    LOG_DIR_NOT_FOUND = 57, False, "no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, False, "authentication failed"
    UNKNOWN_PRODUCER_ID = 59, False, "nothing is known of the producer id"
    REASSIGNMENT_IN_PROGRESS = 60, False, "the partition is being reassigned"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "delegation tokens are not enabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "the delegation token belongs to somebody else"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, False, "delegation tokens are not allowed on this connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "not allowed to use the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, False, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, False, "the principal's type is not supported"
    NON_EMPTY_GROUP = 68, False, "the group has members"
    GROUP_ID_NOT_FOUND = 69, False, "no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "no such fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, True, "the fetch session's epoch is not the expected one"
    LISTENER_NOT_FOUND = 72, True, "the leader has no listener of that name"
    TOPIC_DELETION_DISABLED = 73, False, "delete.topic.enable is false"
    FENCED_LEADER_EPOCH = 74, True, "the leader epoch in the request is older than the broker's"
    UNKNOWN_LEADER_EPOCH = 75, True, "the leader epoch in the request is newer than the broker's"
    UNSUPPORTED_COMPRESSION_TYPE = 76, False, "the compression type is not supported in this version"
    STALE_BROKER_EPOCH = 77, False, "the broker's epoch has changed"
    OFFSET_NOT_AVAILABLE = 78, True, "the high watermark has not caught up with the new leader's log"
    MEMBER_ID_REQUIRED = 79, False, "join again with the member id given here"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "the preferred leader is not available"
    GROUP_MAX_SIZE_REACHED = 81, False, "the group has group.max.size members"
    FENCED_INSTANCE_ID = 82, False, "another member has taken over the group instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "no eligible leader is available"
    ELECTION_NOT_NEEDED = 84, True, "the partition has the wanted leader"
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "no reassignment is going on"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "members of the group are subscribed to the topic"
    INVALID_RECORD = 87, False, "a record is not valid for this topic"
    UNSTABLE_OFFSET_COMMIT = 88, True, "offsets wait for a transaction to end"
    THROTTLING_QUOTA_EXCEEDED = 89, True, "a quota is exceeded"
    PRODUCER_FENCED = 90, False, "a producer with the same transactional id has taken over"
    RESOURCE_NOT_FOUND = 91, False, "no such resource"
    DUPLICATE_RESOURCE = 92, False, "the resource is named twice"
    UNACCEPTABLE_CREDENTIAL = 93, False, "the credential is not acceptable"
    INCONSISTENT_VOTER_SET = 94, False, "the voter sets differ"
    INVALID_UPDATE_VERSION = 95, False, "the update's version is not valid"
    FEATURE_UPDATE_FAILED = 96, False, "the feature could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "a forwarded principal could not be read"
    SNAPSHOT_NOT_FOUND = 98, False, "no such snapshot"
    POSITION_OUT_OF_RANGE = 99, False, "the position is beyond the snapshot"
    UNKNOWN_TOPIC_ID = 100, True, "this broker has no topic of that id"
    DUPLICATE_BROKER_REGISTRATION = 101, False, "the broker's id is in use"
    BROKER_ID_NOT_REGISTERED = 102, False, "the broker's id is not registered"
    INCONSISTENT_TOPIC_ID = 103, True, "the topic's id in the request and in the log differ"
    INCONSISTENT_CLUSTER_ID = 104, False, "the cluster's id in the request and here differ"
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106,
        True,
        "the fetch session began without topic ids, or the other way round",
    )
    INELIGIBLE_REPLICA = 107, False, "the replica may not join the in-sync set"
    NEW_LEADER_ELECTED = 108, False, "a new leader has been elected"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "the offset lies in tiered storage"
    FENCED_MEMBER_EPOCH = 110, False, "the member's epoch is fenced"
    UNRELEASED_INSTANCE_ID = 111, False, "another member still holds the group instance id"
    UNSUPPORTED_ASSIGNOR = 112, False, "the assignor is not supported"
    STALE_MEMBER_EPOCH = 113, False, "the member's epoch is stale"
    MISMATCHED_ENDPOINT_TYPE = 114, False, "the request went to an endpoint of the wrong type"
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "the endpoint type is not supported"
    UNKNOWN_CONTROLLER_ID = 116, False, "no such controller"
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "the telemetry subscription is outdated"
    TELEMETRY_TOO_LARGE = 118, False, "the telemetry is too large"
    INVALID_REGISTRATION = 119, False, "the registration is not valid"
    TRANSACTION_ABORTABLE = 120, False, "the transaction must be aborted"
    INVALID_RECORD_STATE = (
        121,
        False,
        "the record's state does not allow it: no member has the record, or another has",
    )
    SHARE_SESSION_NOT_FOUND = 122, True, "no such share session"
    INVALID_SHARE_SESSION_EPOCH = 123, True, "the share session's epoch is not the expected one"
    FENCED_STATE_EPOCH = 124, False, "the share coordinator's state has a newer epoch"
    INVALID_VOTER_KEY = 125, False, "the voter's key does not match"
    DUPLICATE_VOTER = 126, False, "the voter is already one"
    VOTER_NOT_FOUND = 127, False, "no such voter"
    INVALID_REGULAR_EXPRESSION = 128, False, "the regular expression is not one of RE2"
    REBOOTSTRAP_REQUIRED = 129, False, "the client's metadata is outdated: it must bootstrap again"
    STREAMS_INVALID_TOPOLOGY = 130, False, "the streams topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "the epoch of the streams topology is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, False, "the epoch of the streams topology is outdated"
    SHARE_SESSION_LIMIT_REACHED = 133, True, "there are as many share sessions as are allowed"
    GROUP_DELETION_FAILED = 134, False, "the group could not be deleted"
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, False, "the description of the topology could not be stored"
    CONTROLLER_ID_NOT_REGISTERED = 136, False, "the controller's id is not registered"


class PylogbrokerError(Exception):
    """Base of every error that the project raises."""


class ConfigError(PylogbrokerError):
    """Invalid setting; the text names the setting, the value and what is expected."""


class StartupError(PylogbrokerError):
    """Failed start; the text is the one line shown to the operator."""


class BrokerEnded(PylogbrokerError):
    """A broker has stopped by itself; the text says why."""


class ProtocolViolation(PylogbrokerError):
    """Bytes that are not of the protocol: the connection is closed without an answer."""


class KafkaError(PylogbrokerError):
    """Error that is answered with a code.

    `detail` says what happened this time, for the answer's `error_message` and the log.
    """

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, detail: str = "", code: ErrorCode | None = None) -> None:
        if code is not None:
            self.code = code
        self.detail = detail or self.code.meaning
        super().__init__(self.detail)


class CorruptRecords(KafkaError):
    """Damaged records: a wrong size, checksum or field."""

    code = ErrorCode.CORRUPT_MESSAGE


class RejectionReason(Enum):
    """Reasons for which records are rejected that metrics count by themselves."""

    NO_KEY = "no key"
    MAGIC = "magic"
    OFFSET_OR_SEQUENCE = "offset or sequence"


class InvalidRecords(KafkaError):
    """Undamaged records that this topic does not take.

    `record_errors` holds `(index in the batch, what is wrong)` (KIP-467). `reason` is None for most errors; `rejected`
    is the number of records, or else of batches, that it concerns.
    """

    code = ErrorCode.INVALID_RECORD

    def __init__(
        self,
        detail: str = "",
        code: ErrorCode | None = None,
        record_errors: tuple[tuple[int, str], ...] = (),
        reason: RejectionReason | None = None,
        rejected: int = 1,
    ) -> None:
        super().__init__(detail, code)
        self.record_errors = record_errors
        self.reason = reason
        self.rejected = rejected


class OffsetOutOfRange(KafkaError):
    """Offset below the log's start or beyond its end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class OffsetTiered(KafkaError):
    """Offset below the local part of an archived log."""

    code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


class StorageFailure(KafkaError):
    """The disk under a log failed, is full or went away."""

    code = ErrorCode.KAFKA_STORAGE_ERROR
    is_full = False  # a retry may succeed
