"""The tests of pylogbroker."""
