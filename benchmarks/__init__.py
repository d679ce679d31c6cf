"""Measurements of the broker, alone or beside another one: see `README.md` here."""
