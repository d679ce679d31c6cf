"""`python -m pylogbroker.cli`: the command, where it has not been installed."""

from pylogbroker.cli import main

main(prog_name="pylogbroker")
