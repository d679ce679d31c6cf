"""The classic group protocol: membership, rebalances and states."""
