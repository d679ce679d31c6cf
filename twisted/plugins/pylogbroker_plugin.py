"""Makes `twistd pylogbroker` and `twistd pylogbroker-mirror` known to twistd."""

from twisted.application.service import ServiceMaker

pylogbroker = ServiceMaker(
    "pylogbroker",
    "pylogbroker.tap",
    "A broker for every Kafka client.",
    "pylogbroker",
)

pylogbroker_mirror = ServiceMaker(
    "pylogbroker-mirror",
    "pylogbroker.mirror.tap",
    "Mirrors of topics from cluster to cluster.",
    "pylogbroker-mirror",
)
