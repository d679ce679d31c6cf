"""Tests of `pylogbroker.security.quotas`."""
