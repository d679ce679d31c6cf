"""Background jobs: log maintenance and the log cleaner."""
