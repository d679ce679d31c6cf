"""Tests of `pylogbroker.broker.security`: ACLs in the tree, and the rules of access of every API."""
