"""Tests of `pylogbroker.timing`."""
