"""The table of all metrics that the broker serves itself."""

from __future__ import annotations

from typing import Final

from pylogbroker.metrics.declarations import (
    DECLARED,
    GROUP,
    PARTITION,
    TOPIC,
    Family,
    counter,
    gauge,
    histogram,
    of_partitions,
    summary,
)

# topics: a sample for each, and one without the label for all
_TRAFFIC = "kafka_server_brokertopicmetrics_"
MESSAGES_IN = counter(f"{_TRAFFIC}messagesin_total", "Records appended by clients and coordinators.", *TOPIC)
BYTES_IN = counter(f"{_TRAFFIC}bytesin_total", "Bytes of records appended by clients and coordinators.", *TOPIC)
BYTES_OUT = counter(f"{_TRAFFIC}bytesout_total", "Bytes of records sent to consumers.", *TOPIC)
REPLICATION_BYTES_OUT = counter(f"{_TRAFFIC}replicationbytesout_total", "Bytes of records sent to followers.", *TOPIC)
APPENDS = counter(
    f"{_TRAFFIC}totalproducerequests_total", "Attempts to append to a partition, with those that failed.", *TOPIC
)
FAILED_APPENDS = counter(f"{_TRAFFIC}failedproducerequests_total", "Attempts to append that failed.", *TOPIC)
FETCHES = counter(f"{_TRAFFIC}totalfetchrequests_total", "Reads of a partition, with those that failed.", *TOPIC)
FAILED_FETCHES = counter(f"{_TRAFFIC}failedfetchrequests_total", "Reads of a partition that failed.", *TOPIC)
BYTES_REJECTED = counter(f"{_TRAFFIC}bytesrejected_total", "Bytes of records that were too large.", *TOPIC)
CORRUPT_RECORDS = counter(
    f"{_TRAFFIC}invalidmessagecrcrecords_total", "Attempts to append damaged records. Without the label topic."
)
RECORDS_WITHOUT_KEY = counter(
    f"{_TRAFFIC}nokeycompactedtopicrecords_total",
    "Records without a key for compacted topics. Without the label topic.",
)
WRONG_MAGIC = counter(
    f"{_TRAFFIC}invalidmagicnumberrecords_total",
    "Attempts to append another format's records. Without the label topic.",
)
WRONG_OFFSET_OR_SEQUENCE = counter(
    f"{_TRAFFIC}invalidoffsetorsequencerecords_total",
    "Attempts to append records with wrong offsets or sequence numbers. Without the label topic.",
)
PRODUCE_CONVERSIONS = counter(
    f"{_TRAFFIC}producemessageconversions_total",
    "Records of producers that got the format or codec of the topic.",
    *TOPIC,
)
FETCH_CONVERSIONS = counter(
    f"{_TRAFFIC}fetchmessageconversions_total",
    "Records that got another format for a client. Converted records that were kept for others are not counted again.",
    *TOPIC,
)

# archived topics, by Kafka's names for tiered storage
COPIED_BYTES = counter(f"{_TRAFFIC}remotecopybytes_total", "Bytes of segments copied to the remote storage.", *TOPIC)
COPIES = counter(f"{_TRAFFIC}remotecopyrequests_total", "Copies of segments, with those that failed.", *TOPIC)
FAILED_COPIES = counter(f"{_TRAFFIC}remotecopyerrors_total", "Copies of segments that failed.", *TOPIC)
ARCHIVED_BYTES_READ = counter(
    f"{_TRAFFIC}remotefetchbytes_total", "Bytes of records for consumers from the remote storage.", *TOPIC
)
ARCHIVE_READS = counter(
    f"{_TRAFFIC}remotefetchrequests_total", "Reads of records in the remote storage, with those that failed.", *TOPIC
)
FAILED_ARCHIVE_READS = counter(
    f"{_TRAFFIC}remotefetcherrors_total", "Reads of records in the remote storage that failed.", *TOPIC
)
ARCHIVE_DELETIONS = counter(
    f"{_TRAFFIC}remotedeleterequests_total", "Deletions of segments in the remote storage.", *TOPIC
)
FAILED_ARCHIVE_DELETIONS = counter(
    f"{_TRAFFIC}remotedeleteerrors_total", "Deletions of segments in the remote storage that failed.", *TOPIC
)
COPY_LAG_BYTES = gauge(
    f"{_TRAFFIC}remotecopylagbytes", "Bytes of sealed segments that are not copied yet, of partitions led here.", *TOPIC
)
COPY_LAG_SEGMENTS = gauge(
    f"{_TRAFFIC}remotecopylagsegments", "Sealed segments that are not copied yet, of partitions led here.", *TOPIC
)
ARCHIVE_SIZE = gauge(
    f"{_TRAFFIC}remotelogsizebytes", "Bytes of segments in the remote storage, of partitions led here.", *TOPIC
)
ARCHIVE_SEGMENTS = gauge(
    f"{_TRAFFIC}remotelogmetadatacount", "Segments in the remote storage, of partitions led here.", *TOPIC
)
ARCHIVE_FAILURES = gauge(
    "pylogbroker_remote_storage_failures", "Failures of the remote storage since it last worked: 0 if it works."
)
ARCHIVE_CACHE_BYTES = gauge(
    "pylogbroker_remote_storage_cache_bytes", "Bytes of records and indexes cached from the remote storage."
)


def _throttle_times(kind: str, doing: str) -> tuple[Family, Family]:
    prefix = f"kafka_server_remotelogmanager_remote_{kind}_throttle_time_"
    slowest = gauge(f"{prefix}max", f"Milliseconds of the longest wait of {doing} for the quota in the last minute.")
    return slowest, gauge(f"{prefix}avg", "Milliseconds of such waits on average.")


ARCHIVE_COPY_THROTTLES = _throttle_times("copy", "copies")
ARCHIVE_READ_THROTTLES = _throttle_times("fetch", "reads")

# replicas of this broker
_REPLICAS = "kafka_server_replicamanager_"
PARTITION_COUNT = gauge(f"{_REPLICAS}partitioncount", "Replicas here.")
LEADER_COUNT = gauge(f"{_REPLICAS}leadercount", "Partitions led here.")
UNDER_REPLICATED = gauge(f"{_REPLICAS}underreplicatedpartitions", "Partitions led here with replicas out of sync.")
UNDER_MIN_ISR = gauge(
    f"{_REPLICAS}underminisrpartitioncount", "Partitions led here with fewer replicas in sync than min.insync.replicas."
)
AT_MIN_ISR = gauge(f"{_REPLICAS}atminisrpartitioncount", "Partitions led here with just min.insync.replicas in sync.")
OFFLINE_REPLICAS = gauge(f"{_REPLICAS}offlinereplicacount", "Replicas here whose log is in a directory that failed.")
ISR_SHRINKS = counter(f"{_REPLICAS}isrshrinks_total", "Replicas that this leader has taken out of sync.")
ISR_EXPANDS = counter(f"{_REPLICAS}isrexpands_total", "Replicas that have come back in sync.")
STRAY_LOGS = gauge("pylogbroker_stray_logs", "Directories of logs that are kept and not served: of no partition here.")
OFFLINE_DIRECTORIES = gauge("kafka_log_logmanager_offlinelogdirectorycount", "Log directories that failed.")
MAX_LAG = gauge(
    "kafka_server_replicafetchermanager_maxlag",
    "Records by which the slowest replica here is behind its leader's high watermark, at the last answer to a fetch.",
    "clientId",
)
MIN_FETCH_RATE = gauge(
    "kafka_server_replicafetchermanager_minfetchrate",
    "Fetches a second of the slowest fetcher, over a minute; 0 without fetchers.",
    "clientId",
)
BROKER_STATE = gauge("kafka_server_kafkaserver_brokerstate", "3: running.")
DISK_READ = gauge("kafka_server_kafkaserver_linux_disk_read_bytes", "Bytes that the process has read from disks.")
DISK_WRITE = gauge("kafka_server_kafkaserver_linux_disk_write_bytes", "Bytes that it has written to disks.")

# the controller; brokers that are not the controller have 0
_CONTROLLER = "kafka_controller_kafkacontroller_"
ACTIVE_CONTROLLER = gauge(f"{_CONTROLLER}activecontrollercount", "1 if this broker is the controller.")
OFFLINE_PARTITIONS = gauge(f"{_CONTROLLER}offlinepartitionscount", "Partitions without a leader.")
GLOBAL_TOPICS = gauge(f"{_CONTROLLER}globaltopiccount", "Topics of the cluster.")
GLOBAL_PARTITIONS = gauge(f"{_CONTROLLER}globalpartitioncount", "Partitions of the cluster.")
IMBALANCE = gauge(
    f"{_CONTROLLER}preferredreplicaimbalancecount", "Partitions that another replica leads than the preferred one."
)
ACTIVE_BROKERS = gauge(f"{_CONTROLLER}activebrokercount", "Brokers of the cluster that are alive.")
FENCED_BROKERS = gauge(f"{_CONTROLLER}fencedbrokercount", "Always 0: with ZooKeeper no broker is fenced.")

# members of a cluster of KRaft controllers; these have the metrics of the controller, and brokers have none of them
_METADATA = "kafka_server_brokermetadatametrics_"
APPLIED_OFFSET = gauge(f"{_METADATA}last_applied_record_offset", "Offset of the last metadata record that is applied.")
APPLIED_TIMESTAMP = gauge(f"{_METADATA}last_applied_record_timestamp", "Its time, in ms since 1970; -1: none yet.")
APPLIED_LAG_MS = gauge(
    f"{_METADATA}last_applied_record_lag_ms", "Its age in ms; an idle cluster has two records a second."
)
METADATA_LOAD_ERRORS = gauge(f"{_METADATA}metadata_load_error_count", "1 if a record could not be applied: it stops.")
METADATA_APPLY_ERRORS = gauge(
    f"{_METADATA}metadata_apply_error_count",
    "Replicas that could not lead or follow as a record says; the log says why.",
)
_LOADER = "kafka_server_metadataloader_"
METADATA_VERSION = gauge(f"{_LOADER}currentmetadataversion", "Level of the feature metadata.version.")
LOADED_SNAPSHOTS = gauge(f"{_LOADER}handleloadsnapshotcount", "Snapshots of the metadata that were loaded.")
CURRENT_CONTROLLER = gauge(f"{_LOADER}currentcontrollerid", "Id of the active controller, -1 while none is known.")
FINALIZED_LEVEL = gauge(f"{_LOADER}finalizedlevel", "Levels of the cluster's features.", "featurename")
_RAFT = "kafka_server_raftmetrics_"
RAFT_LEADER = gauge(f"{_RAFT}current_leader", "Id of the active controller, -1 while none is known.")
RAFT_EPOCH = gauge(f"{_RAFT}current_epoch", "Epoch of the active controller.")
RAFT_HIGH_WATERMARK = gauge(f"{_RAFT}high_watermark", "End of what is committed of the metadata log.")
RAFT_LOG_END_OFFSET = gauge(f"{_RAFT}log_end_offset", "Offset up to which this broker has fetched the metadata log.")
RAFT_STATE = gauge(f"{_RAFT}current_state", "1 for the state of this broker: observer.", "current_state")
REGISTRATION_STATE = gauge(
    "pylogbroker_kraft_registration",
    "1 for the state of this broker at the controllers: registering, fenced, active, leaving.",
    "state",
)

UNCLEAN_ELECTIONS = counter(
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "Elections by this controller of a leader that was not in sync: records may be lost.",
)

# partitions with a replica here
LOG_SIZE = of_partitions("kafka_log_log_size", "Bytes of records.")
LOG_END = of_partitions("kafka_log_log_logendoffset", "Offset of the next record.")
LOG_START = of_partitions("kafka_log_log_logstartoffset", "Offset of the first record.")
LOG_SEGMENTS = of_partitions("kafka_log_log_numlogsegments", "Segments of the log.")

# partitions led here
PARTITION_UNDER_REPLICATED = of_partitions("kafka_cluster_partition_underreplicated", "1 if replicas are out of sync.")
PARTITION_UNDER_MIN_ISR = of_partitions(
    "kafka_cluster_partition_underminisr", "1 if fewer than min.insync.replicas are in sync."
)
PARTITION_AT_MIN_ISR = of_partitions("kafka_cluster_partition_atminisr", "1 if min.insync.replicas are in sync.")
REPLICAS_COUNT = of_partitions("kafka_cluster_partition_replicascount", "Replicas of the partition.")
IN_SYNC_COUNT = of_partitions("kafka_cluster_partition_insyncreplicascount", "Replicas of the partition in sync.")
CURRENT_OFFSET = of_partitions(
    "kafka_topic_partition_current_offset", "High watermark: the offset up to which consumers may read."
)
OLDEST_OFFSET = of_partitions("kafka_topic_partition_oldest_offset", "Offset of the first record.")
IN_SYNC_REPLICA = of_partitions("kafka_topic_partition_in_sync_replica", "Replicas in sync.")
LEADER = of_partitions("kafka_topic_partition_leader", "Number of the leader.")
IS_PREFERRED = of_partitions("kafka_topic_partition_leader_is_preferred", "1 if the preferred replica leads.")
REPLICAS = of_partitions("kafka_topic_partition_replicas", "Replicas of the partition.")
IS_UNDER_REPLICATED = of_partitions(
    "kafka_topic_partition_under_replicated_partition", "1 if replicas are out of sync."
)
TOPIC_PARTITIONS = gauge(
    "kafka_topic_partitions", "Partitions of the topic, by the broker that leads its partition 0.", *TOPIC
)
BROKERS = gauge("kafka_brokers", "Brokers that this one knows to be alive.")
BROKER_INFO = gauge("kafka_broker_info", "1, for each broker known to be alive.", "id", "address")

# requests
REQUESTS = counter("kafka_network_requestmetrics_requests_total", "Requests by API and version.", "request", "version")
ERRORS = counter(
    "kafka_network_requestmetrics_errors_total",
    "Errors in responses. Errors of single partitions are counted for Produce and Fetch only. After 400, OTHER.",
    "request",
    "error",
)
TOTAL_TIME = summary(
    "kafka_network_requestmetrics_totaltimems",
    "Milliseconds from the read that brought a request to its answer. The quantiles are of the last minute.",
    "request",
)
LOCAL_TIME = summary(
    "kafka_network_requestmetrics_localtimems",
    "Milliseconds in which the request was handled, without waits for records, replicas, threads and others.",
    "request",
)
QUEUE_TIME = summary(
    "kafka_network_requestmetrics_requestqueuetimems",
    "Milliseconds for which the request waited for others of the same read, before it was handled.",
    "request",
)
REMOTE_TIME = summary(
    "kafka_network_requestmetrics_remotetimems",
    "Milliseconds for which the answer waited for records, replicas, a thread or earlier answers.",
    "request",
)
CONVERSION_TIME = summary(
    "kafka_network_requestmetrics_messageconversionstimems",
    "Milliseconds of a conversion of one partition's records. Requests without one are not counted.",
    "request",
)
CONVERSION_MEMORY = summary(
    "kafka_network_requestmetrics_temporarymemorybytes",
    "Bytes of the records that such a conversion made.",
    "request",
)
REQUEST_SECONDS = histogram(
    "pylogbroker_request_seconds",
    "Seconds from the read that brought a request to its answer, to be summed over brokers.",
    "request",
)
REQUEST_QUEUE = gauge("kafka_network_requestchannel_requestqueuesize", "Requests that are received and not begun.")
RESPONSE_QUEUE = gauge("kafka_network_requestchannel_responsequeuesize", "Requests whose answer is not ready.")
NETWORK_IDLE = gauge(
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "Share of the last minute, 0 to 1, in which the reactor's thread used no processor time.",
)
HANDLERS_IDLE = gauge(
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "Equal to networkprocessoravgidle_percent: one thread does both.",
)

# connections
_SOCKETS = "kafka_server_socket_server_metrics_"
_LISTENER = ("listener", "networkProcessor")
CONNECTIONS = gauge(f"{_SOCKETS}connection_count", "Connections.", *_LISTENER)
CONNECTIONS_MADE = counter(f"{_SOCKETS}connection_creation_total", "Connections that were accepted.", *_LISTENER)
CONNECTIONS_LOST = counter(f"{_SOCKETS}connection_close_total", "Connections that have ended.", *_LISTENER)
CREATION_RATE = gauge(f"{_SOCKETS}connection_creation_rate", "New connections a second, over a minute.", *_LISTENER)
CLOSE_RATE = gauge(f"{_SOCKETS}connection_close_rate", "Ended connections a second, over a minute.", *_LISTENER)
AUTHENTICATED = counter(
    f"{_SOCKETS}successful_authentication_total", "Connections that TLS or SASL has authenticated.", *_LISTENER
)
NOT_AUTHENTICATED = counter(
    f"{_SOCKETS}failed_authentication_total", "Connections whose TLS or SASL has failed.", *_LISTENER
)
EXPIRED = gauge(
    f"{_SOCKETS}expired_connections_killed_count",
    "Connections closed because a client used them after its SASL session.",
    *_LISTENER,
)
SOFTWARE = gauge(
    f"{_SOCKETS}connections_software",
    "Connections by the client's name and version, as it says itself; after 100 of these, other.",
    "clientSoftwareName",
    "clientSoftwareVersion",
    *_LISTENER,
)
HANDSHAKES = counter(
    "pylogbroker_handshakes_total",
    "Ends of TLS handshakes and SASL authentications: success or failure.",
    "listener",
    "protocol",
    "result",
)

# quotas: a sample for the clients that share one, for at most 100 of each resource, the most active
_QUOTA = ("resource", "user", "clientId")
QUOTA_BYTE_RATE = gauge("kafka_server_quota_byte_rate", "Bytes a second, of Produce or Fetch, under a quota.", *_QUOTA)
QUOTA_REQUEST_TIME = gauge(
    "kafka_server_quota_request_time", "Percent of the broker's thread, under a quota for requests.", *_QUOTA
)
QUOTA_THROTTLE_TIME = gauge(
    "kafka_server_quota_throttle_time", "Milliseconds for which a next request would be throttled now.", *_QUOTA
)
THROTTLED = counter("pylogbroker_throttled_responses_total", "Responses with a throttle time, because of a quota.")
THROTTLE_SECONDS = counter("pylogbroker_throttle_seconds_total", "Sum of the throttle times of answers.")

# log cleaner
_CLEANER = "kafka_log_logcleaner"
CLEANER_DIRTY = gauge(
    f"{_CLEANER}manager_max_dirty_percent",
    "Dirty share of the dirtiest log, 0 to 100, at the last look.",
)
CLEANER_LOOKED = gauge(
    f"{_CLEANER}manager_time_since_last_run_ms", "Milliseconds since the last look for logs to compact; 0 before it."
)
CLEANER_UNCLEANABLE = gauge(
    f"{_CLEANER}manager_uncleanable_partitions_count",
    "Logs with damaged files, which are not compacted until the next start.",
    "logDirectory",
)
CLEANER_SECONDS_MAX = gauge(f"{_CLEANER}_max_clean_time_secs", "Longest compaction of a log since the start.")
CLEANINGS = counter("pylogbroker_log_cleanings_total", "Compactions of logs that succeeded.")
CLEANINGS_FAILED = counter("pylogbroker_log_cleanings_failed_total", "Compactions of logs that failed.")
CLEANING_SECONDS = counter("pylogbroker_log_cleaning_seconds_total", "Duration of the successful compactions.")
CLEANING_BYTES_READ = counter("pylogbroker_log_cleaning_bytes_read_total", "Bytes that compactions have read.")
CLEANING_BYTES_WRITTEN = counter("pylogbroker_log_cleaning_bytes_written_total", "Bytes that compactions have left.")

# groups and sessions of this broker
_GROUPS = "kafka_coordinator_group_groupmetadatamanager_"
GROUPS = gauge(f"{_GROUPS}numgroups", "Groups whose coordinator this broker is.")
GROUPS_BY_STATE = {
    state: gauge(f"{_GROUPS}numgroups{state.lower()}", f"Groups in the state {state} whose coordinator this broker is.")
    for state in ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
}
_GROUP_METRICS = "kafka_server_group_coordinator_metrics_"
GROUPS_BY_PROTOCOL = gauge(
    f"{_GROUP_METRICS}group_count", "Groups of a protocol whose coordinator this broker is.", "protocol"
)
CONSUMER_GROUPS_BY_STATE = gauge(
    f"{_GROUP_METRICS}consumer_group_count",
    "Consumer groups of KIP-848 in a state whose coordinator this broker is.",
    "state",
)
SHARE_GROUPS_BY_STATE = gauge(
    f"{_GROUP_METRICS}share_group_count", "Share groups in a state whose coordinator this broker is.", "state"
)
STREAMS_GROUPS_BY_STATE = gauge(
    f"{_GROUP_METRICS}streams_group_count",
    "Groups of Kafka Streams (KIP-1071) in a state whose coordinator this broker is.",
    "state",
)
STREAMS_STATES = {
    "Empty": "empty",
    "NotReady": "not_ready",
    "Assigning": "assigning",
    "Reconciling": "reconciling",
    "Stable": "stable",
    "Dead": "dead",
}
"""Labels of the states of groups of Kafka Streams, whose class is imported on first use."""
OFFSETS = gauge(f"{_GROUPS}numoffsets", "Committed offsets of groups whose coordinator this broker is.")
SESSIONS = gauge("kafka_server_fetchsessioncache_numincrementalfetchsessions", "Fetch sessions.")
SESSION_PARTITIONS = gauge(
    "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", "Partitions of incremental fetch sessions."
)
FETCHES_EXPIRED = counter(
    "kafka_server_delayedfetchmetrics_expires_total",
    "Fetches that have waited for their max_wait_ms, without fetch.min.bytes: of a consumer, or a follower.",
    "fetcherType",
)
SESSION_EVICTIONS = counter(
    "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
    "Idle fetch sessions that were evicted for new ones.",
)

# share groups, at the leaders of their partitions
_SHARE_GROUP = "kafka_server_sharegroupmetrics_"
_SHARE_PARTITION = "kafka_server_sharepartitionmetrics_"
SHARE_SESSIONS = gauge("kafka_server_sharesessioncache_sharesessionscount", "Share sessions.")
SHARE_SESSION_PARTITIONS = gauge(
    "kafka_server_sharesessioncache_sharepartitionscount", "Partitions of all share sessions together."
)
SHARE_ACKNOWLEDGEMENTS = counter(
    f"{_SHARE_GROUP}recordacknowledgements_total", "Records that members of share groups have acknowledged.", "ackType"
)
SHARE_LOCKS_EXPIRED = counter(
    f"{_SHARE_PARTITION}acquisitionlocktimeout_total",
    "Records whose acquisition locks have expired: they are delivered again.",
)
SHARE_IN_FLIGHT = gauge(
    f"{_SHARE_PARTITION}inflightmessagecount", "Records that members of the group have acquired.", "group", *PARTITION
)
SHARE_IN_FLIGHT_SUM = gauge(
    "pylogbroker_sharegroup_inflight_records", "Sum over the partitions that this broker leads.", "group"
)
DEAD_LETTERS = counter(f"{_SHARE_GROUP}deadletterqueuerecordcount_total", "Dead letters that were stored.", "group")
DEAD_LETTER_APPENDS = counter(
    f"{_SHARE_GROUP}deadletterqueuetotalproducerequests_total", "Attempts to store dead letters.", "group"
)
DEAD_LETTER_FAILURES = counter(
    f"{_SHARE_GROUP}deadletterqueuefailedproducerequests_total",
    "Failed attempts to store dead letters; they are repeated.",
    "group",
)
SHARE_STATE_WRITES = counter(
    "kafka_server_share_coordinator_metrics_write_total", "Changes of states of share partitions."
)

# loads of coordinators, and the ends of transactions


def _load_times(kind: str) -> tuple[Family, Family]:
    prefix = f"kafka_server_{kind}_coordinator_metrics_partition_load_time_"
    slowest = gauge(f"{prefix}max", "Milliseconds of the slowest load of a partition in the last minute; NaN without.")
    return slowest, gauge(f"{prefix}avg", "Milliseconds of such loads on average.")


GROUP_LOAD_TIMES = _load_times("group")
TRANSACTION_LOAD_TIMES = _load_times("transaction")
TRANSACTION_OPEN_MAX = gauge(
    "kafka_server_transaction_coordinator_metrics_active_transaction_open_time_max",
    "Milliseconds since the oldest open transaction began whose coordinator this broker is.",
)
_MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
MARKERS_WAITING = gauge(
    f"{_MARKERS}unknowndestinationqueuesize",
    "Ended transactions whose markers wait for another attempt: a leader is not known, or did not take them.",
)
COMPLETIONS_WAITING = gauge(
    f"{_MARKERS}logappendretryqueuesize",
    "Ended transactions with all markers whose record of the end waits for another attempt.",
)
MARKER_REQUESTS = counter(
    "pylogbroker_transaction_marker_requests_total", "Requests with markers that were sent to other brokers."
)

# lag, by the coordinator of the group
_OF_GROUP = "The group's coordinator reports it."
GROUP_OFFSET = gauge("kafka_consumergroup_current_offset", f"Committed offset. {_OF_GROUP}", *GROUP, *PARTITION)
GROUP_LAG = gauge(
    "kafka_consumergroup_lag",
    f"Records behind the committed offset, to the high watermark. {_OF_GROUP}",
    *GROUP,
    *PARTITION,
)
GROUP_OFFSET_SUM = gauge("kafka_consumergroup_current_offset_sum", "Sum over the partitions.", *GROUP, *TOPIC)
GROUP_LAG_SUM = gauge("kafka_consumergroup_lag_sum", "Sum over the partitions whose lag is known.", *GROUP, *TOPIC)
GROUP_LAG_SECONDS = gauge(
    "pylogbroker_consumergroup_lag_seconds",
    "Age of the oldest record that the group has not committed, as scrapes saw it come; 0 without lag.",
    *GROUP,
    *TOPIC,
)
GROUP_MEMBERS = gauge("kafka_consumergroup_members", "Members of the group.", *GROUP)

# connections that follow topics by HTTP
_FOLLOWERS = "pylogbroker_http_followers"
FOLLOWERS = gauge(_FOLLOWERS, "Connections that follow the topic by HTTP; without any, there is no sample.", *TOPIC)
FOLLOWERS_BEHIND = gauge(
    f"{_FOLLOWERS}_behind", "Followers that read older records, or do not take the newest ones.", *TOPIC
)
FOLLOWER_LAG_MAX = gauge(
    f"{_FOLLOWERS}_lag_max", "Offsets that the slowest follower has not got, over its partitions.", *TOPIC
)
FOLLOWERS_BEGUN = counter(f"{_FOLLOWERS}_begun_total", "Connections that began to follow a topic.")
FOLLOWERS_ENDED = counter(
    f"{_FOLLOWERS}_ended_total",
    "Followers that are gone: by the client or its network, or by the broker, as with a deleted topic or a lost right.",
    "by",
)
FOLLOWER_RECORDS = counter("pylogbroker_http_follower_records_total", "Records sent, once for each follower.")
FOLLOWER_BYTES = counter("pylogbroker_http_follower_bytes_total", "Bytes of events sent to followers.")
FOLLOWER_SKIPPED = counter(
    "pylogbroker_http_follower_skipped_offsets_total", "Offsets that were deleted before a follower had read them."
)

FAMILIES: Final = tuple(DECLARED)
