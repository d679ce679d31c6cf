"""Security: principals, TLS, SASL, ACLs and quotas, as values and state machines without I/O."""
