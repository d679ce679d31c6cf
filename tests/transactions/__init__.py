"""Tests of `pylogbroker.transactions`."""
