"""The partitions that this broker leads: logs, group commit, settings and delete policies."""
