"""Tests of `pylogbroker.coordinators`."""
