"""`python -m pylogbroker.cli`: the command where it is not installed."""

from pylogbroker.cli import main

main(prog_name="pylogbroker")
