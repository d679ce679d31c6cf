"""Pages of brokers: the table, one broker with its log directories and settings, reassignments."""
