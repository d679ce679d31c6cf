"""Log directories of a broker: locks, identity, checkpoints, inventory, and logs."""
