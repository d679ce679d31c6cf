"""Description of the machine, and preparation of its memory.

In a virtual machine, the first use of memory is slow, since the host must provide it. Log segments are mostly new
memory (the page cache), so without `touch_memory` a run would measure the host.
"""

import mmap
import os
import platform
from pathlib import Path

TOUCHED_BYTES = 3 << 30
SHARE_OF_FREE = 0.5


def touch_memory() -> None:
    """Use and release as much memory as the workloads ever have in the page cache."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = min(TOUCHED_BYTES, int(free * SHARE_OF_FREE))
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, size, flags=flags).close()


def description() -> str:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    python = f"Python {platform.python_version()}"
    return f"{os.cpu_count()} cores of {_processor()}, {memory:.0f} GiB, Linux {platform.release()}, {python}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
