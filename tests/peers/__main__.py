"""`python -m tests.peers [PEER ...]`: fetch what is not there yet of the named peers or, jars and Node's, of all."""

import sys

from tests.peers import node, node_available
from tests.peers.maven import PEERS, jars


def main(names: list[str]) -> None:
    """Fetch what is missing and say what is there."""
    for peer in names or PEERS:
        print(f"{peer}: {len(jars(peer))} jars")
    if not names and node_available():
        print(f"node: {len(list(node.modules().iterdir()))} packages")


if __name__ == "__main__":
    main(sys.argv[1:])
