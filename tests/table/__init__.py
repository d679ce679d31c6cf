"""Tests of pylogbroker.table."""
