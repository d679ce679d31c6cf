"""Delegation tokens of a broker: requests for them, their rules, and their store in the coordination tree."""
