"""Security of this broker: TLS of its listeners, the authorizer over the coordination tree, rules of access."""
