"""Several brokers on one machine, one for each core: `twistd pylogbroker --brokers N`."""
