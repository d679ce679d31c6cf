"""`python -m tests.peers [PEER ...]`: fetch the jars that are not there yet, of the named peers or of all."""

import sys

from tests.peers.maven import PEERS, jars


def main(names: list[str]) -> None:
    """Fetch what is missing and say what is there."""
    for peer in names or PEERS:
        print(f"{peer}: {len(jars(peer))} jars")


if __name__ == "__main__":
    main(sys.argv[1:])
