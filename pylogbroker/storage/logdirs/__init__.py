"""The log directories of a broker: locks, identity, checkpoints, inventory, and the logs in them."""
