"""kazoo is imported only where ZooKeeper is used: a broker with the embedded tree starts without it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import pylogbroker.cli, pylogbroker.client, pylogbroker.tap.lifecycle, pylogbroker.tap.twistd
import pylogbroker.tree.embedded, pylogbroker.tree.zookeeper_options
print("kazoo" in sys.modules)
import pylogbroker.tree.zookeeper
print("kazoo" in sys.modules)
"""


def test_a_broker_with_the_embedded_tree_does_not_import_kazoo() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
