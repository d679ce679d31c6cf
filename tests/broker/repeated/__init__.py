"""Tests of `pylogbroker.broker.repeated`: repeated requests have the results of usual ones."""
