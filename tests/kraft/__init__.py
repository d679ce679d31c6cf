"""Tests of `pylogbroker.kraft`."""
