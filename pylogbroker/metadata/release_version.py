"""Release of the inter-broker protocol that a cluster's brokers speak.

Source: Kafka's setting inter.broker.protocol.version. The release decides what is written to the coordination tree, so
that each broker of a rolling upgrade can read it.

| release | what is new                                                              |
|---------|--------------------------------------------------------------------------|
| 2.7     | features of brokers and cluster; leaders change the ISR by AlterPartition |
| 2.8     | topic ids                                                                |
| 3.0     | the controller alone assigns blocks of producer ids                      |
| 3.2     | leader recovery state                                                    |
| 3.3     | version 2 of the features                                                |
"""

from __future__ import annotations

from typing import Final, NamedTuple


class ReleaseVersion(NamedTuple):
    major: int
    minor: int

    @property
    def has_features(self) -> bool:
        return self >= (2, 7)

    @property
    def features_version(self) -> int:
        return 2 if self >= (3, 3) else 1

    @property
    def has_topic_ids(self) -> bool:
        return self >= (2, 8)

    @property
    def has_leader_recovery(self) -> bool:
        return self >= (3, 2)


NEWEST: Final = ReleaseVersion(3, 9)
