"""Registers the partitioner `key-prefix` with pylogbroker."""

from key_prefix import KeyPrefixFactory

key_prefix = KeyPrefixFactory()
