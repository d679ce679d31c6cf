"""Coordination tree: small nodes with versions and watches, which brokers share."""
