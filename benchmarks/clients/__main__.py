"""`python -m benchmarks.clients NAME`: one client as a process, with tasks on its standard input.

    in:   produce|produce-plain|consume <tab> bootstrap <tab> topic <tab> count <tab> bytes of a value
    out:  records per second <tab> processor seconds

It ends with its standard input.
"""

import gc
import sys
import time
from importlib import import_module

from benchmarks.clients import Client, Work


def main(name: str) -> None:
    """Obey until there is nothing more to do."""
    client: Client = import_module(f"benchmarks.clients.{name}")
    for line in sys.stdin:
        what, bootstrap, topic, count, value_bytes = line.rstrip("\n").split("\t")
        work = Work(bootstrap, topic, int(count), int(value_bytes), idempotent=what != "produce-plain")
        used = time.process_time()
        rate = client.consume(work) if what == "consume" else client.produce(work)
        print(rate, time.process_time() - used, sep="\t", flush=True)
        gc.collect()


if __name__ == "__main__":
    main(sys.argv[1])
