"""Faults of a broker that a program is tested with."""
