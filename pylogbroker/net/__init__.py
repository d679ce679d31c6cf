"""Listeners and connections of a broker."""
