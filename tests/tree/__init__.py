"""Tests of the coordination tree."""
