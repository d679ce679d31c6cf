"""Benchmarks of the broker, alone or compared with another one: see `README.md` here."""
