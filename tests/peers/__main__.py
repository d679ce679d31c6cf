"""`python -m tests.peers [PEER ...]`: fetch and make what is not there yet of the named peers or of all."""

import sys

from tests.peers import go, kafka_classes, node, node_available
from tests.peers.maven import PEERS, jars
from tests.peers.spark import make_archive


def main(names: list[str]) -> None:
    """Fetch what is missing and say what is there."""
    for peer in names or PEERS:
        print(f"{peer}: {len(jars(peer))} jars")
    if not names and node_available():
        print(f"node: {len(list(node.modules().iterdir()))} packages")
    if not names and go.available():
        print(f"go: {go.program().stat().st_size >> 20} MB of a program")
    if not names:
        for release in kafka_classes.RELEASES:
            print(f"{release}: {kafka_classes.make_archive(release).stat().st_size >> 20} MB of classes")
        print(f"spark: {make_archive().stat().st_size >> 20} MB of classes")


if __name__ == "__main__":
    main(sys.argv[1:])
