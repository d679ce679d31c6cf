"""Makes `twistd pylogbroker` known to twistd."""

from twisted.application.service import ServiceMaker

pylogbroker = ServiceMaker(
    "pylogbroker",
    "pylogbroker.tap",
    "A broker for every Kafka client.",
    "pylogbroker",
)
