"""Layer between a Python process and its disks, for processes with this directory on PYTHONPATH.

Python imports it before anything else. The directory DISK_LAYER has its commands and its journal:

    journal     a line at the begin and at the end of each sync: which, the file's size at its begin, and its path
    hold        while this file exists, syncs wait
    faults      a line for each call that fails: its name, the number of the error, and below which directory
"""

import os
import threading
import time

_PLACE = os.environ["DISK_LAYER"]
_lock = threading.Lock()
_journal = os.open(f"{_PLACE}/journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def _path(fd):
    return os.readlink(f"/proc/self/fd/{fd}")


def _note(when, name, size, path):
    with _lock:
        os.write(_journal, f"{when} {name} {size} {path}\n".encode())


def _fail(name, path):
    """Raise, if the call is to fail for this path."""
    try:
        with open(f"{_PLACE}/faults") as file:
            faults = file.read().splitlines()
    except FileNotFoundError:
        return
    for fault in faults:
        call, number, below = fault.split(" ", 2)
        if call == name and path.startswith(f"{below}/"):
            raise OSError(int(number), os.strerror(int(number)))


def _sync(name, real):
    def sync(fd):
        size, path = os.fstat(fd).st_size, _path(fd)
        _note("begin", name, size, path)
        while os.path.exists(f"{_PLACE}/hold"):
            time.sleep(0.002)
        _fail(name, path)
        real(fd)
        _note("end", name, size, path)

    return sync


def _on_descriptor(name, real):
    def call(fd, *arguments):
        _fail(name, _path(fd))
        return real(fd, *arguments)

    return call


for _name in ("fsync", "fdatasync"):
    setattr(os, _name, _sync(_name, getattr(os, _name)))
os.pwritev = _on_descriptor("pwritev", os.pwritev)
