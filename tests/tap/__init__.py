"""Tests of the command line, most of them on processes."""
