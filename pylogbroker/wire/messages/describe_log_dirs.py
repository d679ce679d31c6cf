"""DescribeLogDirs (key 35): a broker's log directories and their logs.

Versions::

    0  directories, partitions and sizes
    1  KIP-219 throttling
    2  flexible
    3  the response has an error of its own
    4  total and usable bytes of each directory's disk
    5  `is_cordoned`: the directory takes no new partitions (KIP-1066)

Brokers of pylogbroker ask each other for counts of traffic by tagged fields of their own, which Kafka skips.
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    OWN_TAGS,
    Boolean,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    Tag,
    fresh,
    frozen_struct,
    struct,
)


@struct
class DescribableLogDirTopic:
    topic: String = ""
    partitions: list[Int32] = fresh(list)


@struct
class DescribeLogDirsRequest(Request):
    """Null `topics` means everything."""

    api_key, versions = APIS["describe_log_dirs"]

    topics: list[DescribableLogDirTopic] | None = fresh(list)
    with_traffic: Annotated[Boolean, Since(2), Tag(OWN_TAGS), IGNORABLE] = False


@frozen_struct
class BrokerTraffic:
    """Records and bytes since the broker's start, by its clients; -1 of a broker that does not say."""

    messages_in: Int64 = -1
    bytes_in: Int64 = -1
    bytes_out: Int64 = -1
    software: String = ""


@struct
class DescribeLogDirsPartition:
    """`is_future_key` marks a log that is being moved to this directory."""

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Boolean = False


@struct
class DescribeLogDirsTopic:
    name: String = ""
    partitions: list[DescribeLogDirsPartition] = fresh(list)


@struct
class DescribeLogDirsResult:
    error_code: Int16 = 0
    log_dir: String = ""
    topics: list[DescribeLogDirsTopic] = fresh(list)
    total_bytes: Annotated[Int64, Since(4), IGNORABLE] = -1
    usable_bytes: Annotated[Int64, Since(4), IGNORABLE] = -1
    is_cordoned: Annotated[Boolean, Since(5), IGNORABLE] = False


@struct
class DescribeLogDirsResponse(Response):
    api_key, versions = APIS["describe_log_dirs"]

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(3), IGNORABLE] = 0
    results: list[DescribeLogDirsResult] = fresh(list)
    traffic: Annotated[BrokerTraffic, Since(2), Tag(OWN_TAGS), IGNORABLE] = BrokerTraffic()
