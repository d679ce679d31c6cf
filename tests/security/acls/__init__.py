"""Tests of `pylogbroker.security.acls`."""
