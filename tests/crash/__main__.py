"""`python -m tests.crash --kills 300 --seconds 600 --seed 1 [--keep DIRECTORY]`: a long run; its figures at the end.

The exit status is 1 if anything was wrong. What was found, and the data, are left in the directory then.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.crash.run import Run
from tests.crash.workloads import Workload
from tests.crash.workloads.consuming import Consuming
from tests.crash.workloads.producing import Producing


def all_workloads() -> list[Workload]:
    """What goes on in a run."""
    producing = Producing()
    return [producing, Consuming(producing.topics())]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description="Kill a broker many times, and check.")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=3600.0, help="end earlier than after all kills")
    parser.add_argument("--seed", type=int, default=None, help="of the moments, and of what is sent")
    parser.add_argument("--keep", type=Path, default=None, help="work here, and leave everything here")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 30) if given.seed is None else given.seed
    directory = given.keep or Path(tempfile.mkdtemp(prefix="crash-"))
    logging.disable()  # clients tell of every connection that they lose
    print(f"seed {seed}, in {directory}", flush=True)
    outcome = Run(directory, all_workloads(), seed, lambda line: print(line, flush=True)).go(given.kills, given.seconds)
    print(outcome)
    if not outcome.violations and given.keep is None:
        shutil.rmtree(directory)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
