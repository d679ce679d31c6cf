"""Programs that are forked: they are as those of a new interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import forks
from tests.support.forks import ForkedProcess
from tests.support.line_process import LineProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not forks.AVAILABLE, reason="this system has no references to processes")

#: What a program sees of its interpreter.
SEEN = """
import __main__, os, signal, sys
print(sys.argv, sys.path[0], __name__, __main__.__dict__ is globals(), hasattr(__main__, "__file__"))
print(os.getcwd(), os.environ.get("ONE"), os.environ.get("HOME"))
print([signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)], signal.set_wakeup_fd(-1))
print(sorted(os.listdir("/proc/self/fd"))[:-1])
print(sys.stdin.readline(), file=sys.stderr)
sys.exit(len(sys.argv))
"""


def forked(code: str, *arguments: str, environment: Mapping[str, str] | None = None) -> ForkedProcess:
    return forks.start(["-c", code, *arguments], Path.cwd(), environment or os.environ)


def test_a_forked_program_sees_a_new_interpreter(tmp_path: Path) -> None:
    environment = {"ONE": "1", "PYTHONUNBUFFERED": "1"}
    child = forks.start(["-c", SEEN, "a", "b"], tmp_path, environment)
    child.stdin.write(b"a line\n")
    child.stdin.close()
    command = [sys.executable, "-c", SEEN, "a", "b"]
    wanted = subprocess.run(
        command, cwd=tmp_path, env=environment, input=b"a line\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert child.stdout.read().decode() == wanted.stdout.decode()
    assert child.wait(60) == wanted.returncode == 3


def test_a_module() -> None:
    with LineProcess([sys.executable, "-m", "this"], cwd=Path.cwd(), forked=True) as process:
        assert process.wait(60) == 0
        assert process.lines[0] == "The Zen of Python, by Tim Peters"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killing_one_of_two_programs_leaves_the_other(number: signal.Signals) -> None:
    one, other = (forked("import sys; print('runs'); print(sys.stdin.read())") for _ in range(2))
    assert one.stdout.readline() == other.stdout.readline() == b"runs\n"
    one.send_signal(number)
    assert one.wait(60) == -number
    assert other.poll() is None
    one.kill()  # has no effect
    other.stdin.write(b"goes on")
    other.stdin.close()
    assert other.stdout.read() == b"goes on\n"
    assert other.wait(60) == 0


def test_a_signal_has_no_effect_on_a_program_that_has_just_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server reaps it before it reports the end, which no test can time."""

    def is_gone(*arguments: object) -> None:
        raise ProcessLookupError

    child = forked("input()")
    with monkeypatch.context() as patched:
        patched.setattr(signal, "pidfd_send_signal", is_gone)
        child.kill()
    assert child.poll() is None
    child.kill()
    assert child.wait(60) == -signal.SIGKILL


def test_an_error() -> None:
    child = forked("raise ValueError('wrong')")
    assert child.stdout.read().endswith(b"ValueError: wrong\n")
    assert child.wait(60) == 1


def test_a_process_that_ends_at_once() -> None:
    children = [forked(f"import os; os._exit({status})") for status in range(20)]
    assert [each.wait(60) for each in children] == list(range(20))


def test_a_wait_for_a_running_program_times_out() -> None:
    child = forked("input()")
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0)
    child.kill()
    assert child.wait(60) == -signal.SIGKILL


def test_children_end_with_the_process_that_asked(tmp_path: Path) -> None:
    code = "import os; print(os.getpid(), flush=True); input()"
    program = f"""
from pathlib import Path
from tests.support import forks
child = forks.start(["-c", {code!r}], Path.cwd(), {{}})
print(child.stdout.readline().decode(), end="", flush=True)
import os; os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=forks.ROOT, stdout=subprocess.PIPE, timeout=60)
    status = Path("/proc", done.stdout.decode().strip(), "status")
    with suppress(FileNotFoundError, ProcessLookupError):
        wait_until(lambda: "\nState:\tZ" in status.read_text())


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "LD_PRELOAD"])
def test_programs_with_interpreter_settings_are_not_forked(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    command = [sys.executable, "-c", ""]
    assert forks.can_start(command, None)
    assert forks.can_start(command, {"ONE": "1", "PYTHONPATH": str(forks.ROOT)})
    assert not forks.can_start(command, {name: "1"})
    assert not forks.can_start(["python2", "-c", ""], None)
    monkeypatch.setenv(name, "1")
    assert not forks.can_start(command, None)
