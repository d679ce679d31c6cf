"""Consumer groups of KIP-848: the coordinator computes the assignments, and members follow them by heartbeats."""
