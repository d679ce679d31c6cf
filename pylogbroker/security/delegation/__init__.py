"""Delegation tokens (KIP-48): values, the table of those in force, and their layout in the coordination tree."""
