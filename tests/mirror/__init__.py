"""Mirrors of clusters."""
