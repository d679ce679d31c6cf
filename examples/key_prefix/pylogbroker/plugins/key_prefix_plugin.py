"""Makes the partitioner `key-prefix` known to pylogbroker."""

from key_prefix import KeyPrefixFactory

key_prefix = KeyPrefixFactory()
