"""`python -m tests.crash --kills 300 --seconds 600 --seed 1 [--keep DIRECTORY]`: a long run; its figures at the end.

`--workload` names others that work:

    copiers       until they have copied all `--records`
    compaction    writers to a compacted topic
    sharing       members of a share group
    archiving     writers to a topic that is archived as Parquet
    tiering       producers of archived topics, whose store kills the broker; with `--s3` an S3-like one

With `--cluster`, brokers of a cluster are killed, stopped and paused while all clients work: `tests/cluster/run.py`.
With `--cuts`, links between them are cut too. `--engine kraft` has controllers of Apache Kafka in place of ZooKeeper,
which are killed, stopped and paused too; `--apaches 2` makes two of the three brokers Apache Kafka's.

The exit status is 1 if anything was wrong. What was found, and the data, are left in the directory then.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from tests.cluster.faults import Fault
from tests.cluster.network import Network
from tests.cluster.run import all_copiers, all_share_members, tree_run
from tests.cluster.traffic import usual_plans
from tests.crash.kill_moments import CLEANING, COPIERS, MOMENTS, SHARING, archive_file, deletion
from tests.crash.run import Outcome, Run
from tests.crash.workloads import Workload, archiving, compacting, copying, sharing, tiering
from tests.crash.workloads.archiving import Archiving
from tests.crash.workloads.compacting import Compacting
from tests.crash.workloads.consuming import Consuming
from tests.crash.workloads.copier_processes import COPIER_PROGRAMS
from tests.crash.workloads.copying import Copying
from tests.crash.workloads.producing import Producing
from tests.crash.workloads.sharing import Sharing
from tests.crash.workloads.tiering import ArchivedProducing, Trimming
from tests.kraft.run import RELEASES, Layout, kraft_run
from tests.peers.zookeeper import ZooKeeper
from tests.support.s3 import KEYS, S3Store, running_s3
from tests.support.shared_zookeeper import fresh_chroot


def all_workloads() -> list[Workload]:
    """Every workload of a run."""
    producing = Producing()
    return [producing, Consuming(producing.topics())]


Report = Callable[[str], None]


def copiers_run(directory: Path, work: Copying, seed: int, report: Report = print) -> Run:
    """A run with copiers, and nobody else."""
    moments = {**MOMENTS, **CLEANING, **COPIERS}
    return Run(directory, [work], seed, report, settings=copying.SETTINGS, moments=moments)


def compaction_run(directory: Path, seed: int, report: Report = print) -> Run:
    """A run with writers to a topic that is compacted."""
    moments = {**MOMENTS, **CLEANING}
    return Run(directory, [Compacting()], seed, report, settings=compacting.SETTINGS, moments=moments)


def sharing_run(directory: Path, work: Sharing, seed: int, report: Report = print) -> Run:
    """A run with members of a share group, and a producer for them."""
    return Run(directory, [work], seed, report, settings=sharing.ALONE, moments={**MOMENTS, **SHARING})


def archiving_run(directory: Path, seed: int, report: Report = print) -> Run:
    """A run with writers to a topic that is archived and deleted."""
    archive = directory / "archive"
    moments = {"file": archive_file(archive), "deletion": deletion}
    moments |= {name: MOMENTS[name] for name in ("late", "stop")}
    return Run(directory, [Archiving(archive)], seed, report, settings=archiving.SETTINGS, moments=moments)


def tiering_run(directory: Path, seed: int, report: Report = print, s3: S3Store | None = None) -> Run:
    """A run with producers of archived topics, and a store that kills the broker."""
    store = directory / "archive"
    store.mkdir(parents=True)
    place = f"directory:{store}" if s3 is None else s3.place
    settings, environment = tiering.settings_of(directory, place)

    def topics_in_store() -> set[str]:
        names = os.listdir(store) if s3 is None else [name.partition("/")[0] for name in s3.names()]
        return set(names) - {"clusters", "deleted-partitions"}

    trimming = Trimming(topics_in_store, lambda: tiering.topic_ids_on_disk(directory / "broker" / "data"))
    return Run(
        directory,
        [ArchivedProducing(2 if s3 is None else 5), trimming],
        seed,
        report,
        settings=settings,
        environment=environment if s3 is None else environment | KEYS,
        moments={"any time": MOMENTS["any time"], "start": MOMENTS["start"], "stop": MOMENTS["stop"]}
        | {f"in the store, {part}": tiering.in_the_store(directory) for part in ("a", "b", "c")},
    )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description="Kill a broker many times, and check.")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=3600.0, help="end earlier than after all kills")
    parser.add_argument("--seed", type=int, default=None, help="of the moments, and of what is sent")
    parser.add_argument("--cluster", action="store_true", help="kill brokers of a cluster")
    parser.add_argument("--cuts", action="store_true", help="cut links of a cluster, too")
    parser.add_argument("--fault", choices=[*Fault], action="append", help="of a cluster; else all")
    parser.add_argument("--engine", choices=["zookeeper", "kraft"], default="zookeeper", help="of the cluster")
    parser.add_argument("--release", choices=RELEASES, default=RELEASES[-1], help="of the controllers")
    parser.add_argument("--controllers", type=int, default=3)
    parser.add_argument("--apaches", type=int, default=0, help="brokers of Apache Kafka on its controllers")
    workloads = ["clients", "copiers", "compaction", "sharing", "archiving", "tiering"]
    parser.add_argument("--workload", choices=workloads, default="clients")
    parser.add_argument("--s3", action="store_true", help="archive in an S3-like store, not in a directory")
    parser.add_argument("--records", type=int, default=100_000, help="that each crew of copiers copies")
    parser.add_argument(
        "--crew", choices=[crew.name for crew in COPIER_PROGRAMS], action="append", help="of copiers; else all"
    )
    parser.add_argument("--no-transactions", action="store_true", help="copiers do without: that must be found out")
    parser.add_argument("--keep", type=Path, default=None, help="work here, and leave everything here")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 30) if given.seed is None else given.seed
    directory = given.keep or Path(tempfile.mkdtemp(prefix="crash-"))
    logging.disable()  # clients log every lost connection
    print(f"seed {seed}, in {directory}", flush=True)
    if given.cluster:
        outcome = _cluster_run(given, directory, seed)
    else:
        with ExitStack() as stack:
            outcome = _run(given, directory, seed, stack).go(given.kills, given.seconds)
    print(outcome)
    if not outcome.violations and given.keep is None:
        shutil.rmtree(directory)
    return 1 if outcome.violations else 0


def report(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def _cluster_run(given: argparse.Namespace, directory: Path, seed: int) -> Outcome:
    """Run brokers of a cluster on a ZooKeeper or controllers of their own."""
    with ExitStack() as stack:
        network = stack.enter_context(closing(Network())) if given.cuts else None
        if given.engine == "kraft":
            layout = Layout(given.release, given.apaches, given.controllers)
            run = kraft_run(directory, layout, given.kills, seed, report, network)
        else:
            zookeeper = stack.enter_context(ZooKeeper(directory / "zookeeper"))
            chroot = stack.enter_context(fresh_chroot(zookeeper.address, "crash"))
            others = all_share_members() if given.workload == "sharing" else all_copiers(given.kills)
            is_archived = given.workload == "tiering"
            run = tree_run(directory, chroot, [] if is_archived else [others], seed, report, network)
            if is_archived:
                (directory / "archive").mkdir(parents=True)
                run.topic, run.plans = tiering.ORDERS, usual_plans(tiering.ORDERS)
                run.settings = {**tiering.SETTINGS, "remote.log.storage": f"directory:{directory / 'archive'}"}
        run.kinds = given.fault or run.kinds
        return run.go(given.kills, given.seconds)


def _run(given: argparse.Namespace, directory: Path, seed: int, stack: ExitStack) -> Run:
    if given.workload == "clients":
        return Run(directory, all_workloads(), seed, report)
    if given.workload == "compaction":
        return compaction_run(directory, seed, report)
    if given.workload == "archiving":
        return archiving_run(directory, seed, report)
    if given.workload == "tiering":
        return tiering_run(directory, seed, report, stack.enter_context(running_s3()) if given.s3 else None)
    if given.workload == "sharing":
        return sharing_run(directory, Sharing(sharing.ALL_CLIENTS), seed, report)
    crews = [crew for crew in COPIER_PROGRAMS if not given.crew or crew.name in given.crew]
    return copiers_run(directory, Copying(given.records, crews, transactions=not given.no_transactions), seed, report)


if __name__ == "__main__":
    sys.exit(main())
