"""The classic group protocol: membership, rebalances and the states of a group."""
