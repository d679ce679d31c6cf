"""The partitions that this broker leads: their logs, group commit, settings and delete policies."""
