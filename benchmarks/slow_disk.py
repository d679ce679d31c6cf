"""Simulation of slow disks, for machines whose own are too fast.

The disk of a virtual machine is often the memory of its host: a sync takes a tenth of a millisecond, where a safe
solid-state drive takes one or two, and a rotating one ten. `slow_syncs` gives every `fsync` and `fdatasync` of
processes started meanwhile a minimum time, in any program.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.errors import BenchmarkError

SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static int slowly(const char *name, int fd) {
    int (*real)(int) = (int (*)(int)) dlsym(RTLD_NEXT, name);
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += NANOSECONDS % 1000000000L;
    end.tv_sec += NANOSECONDS / 1000000000L + end.tv_nsec / 1000000000L;
    end.tv_nsec %= 1000000000L;
    int result = real(fd);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, 0));
    return result;
}

int fsync(int fd) { return slowly("fsync", fd); }
int fdatasync(int fd) { return slowly("fdatasync", fd); }
"""


@contextmanager
def slow_syncs(milliseconds: float, directory: Path) -> Iterator[None]:
    """Give processes started within the block slow syncs, by a library built in `directory`."""
    if not milliseconds:
        yield
        return
    library = directory / "slow_syncs.so"
    command = ["cc", "-shared", "-fPIC", "-O", f"-DNANOSECONDS={int(milliseconds * 1e6)}L", "-xc", "-", "-ldl"]
    try:
        subprocess.run([*command, "-o", str(library)], input=SOURCE.encode(), check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchmarkError(f"slow syncs need a C compiler: {error}") from error
    before = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = str(library)
    try:
        yield
    finally:
        del os.environ["LD_PRELOAD"]
        if before is not None:
            os.environ["LD_PRELOAD"] = before
