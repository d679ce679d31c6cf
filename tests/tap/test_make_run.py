"""`make run`: the command that it carries out, and the settings for development."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from pylogbroker.config import BrokerConfig, properties
from pylogbroker.tap.options import Options

ROOT = Path(__file__).parents[2]


def arguments_of_make_run(*arguments: str) -> list[str]:
    """The arguments that `make run` gives to the plugin of twistd, whatever a `make test` around it was given."""
    command = ["make", "--dry-run", "--silent", "--assume-old=.venv/installed", "run", *arguments]
    env = {name: value for name, value in os.environ.items() if name not in ("ARGS", "MAKEFLAGS", "MAKEOVERRIDES")}
    done = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True, timeout=120)
    words = shlex.split(done.stdout)
    return words[words.index("pylogbroker") + 1 :]


def settings_of(arguments: list[str]) -> BrokerConfig:
    options = Options()
    options.parseOptions([str(ROOT / word) if word.startswith("etc/") else word for word in arguments])
    return BrokerConfig(options.settings)


def test_make_run_uses_the_development_settings() -> None:
    config = settings_of(arguments_of_make_run())
    assert config.integer("group.initial.rebalance.delay.ms") == 0
    assert config.log_dirs == ("data",)
    assert [(listener.host, listener.port) for listener in config.listeners] == [("127.0.0.1", 9092)]


def test_make_run_takes_more_options() -> None:
    config = settings_of(arguments_of_make_run("ARGS=-l PLAINTEXT://127.0.0.1:9093 -d other -o num.partitions=3"))
    assert config.listeners[0].port == 9093
    assert config.log_dirs == ("other",)
    assert config.integer("num.partitions") == 3
    assert config.integer("group.initial.rebalance.delay.ms") == 0


def test_the_settings_for_development_are_known() -> None:
    assert BrokerConfig(properties.read(str(ROOT / "etc" / "development.properties"))).warnings == ()


def test_each_run_names_a_missing_venv_package(tmp_path: Path) -> None:
    """Debian's Python without that package fails after it has made a part of the environment."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "setup.cfg").touch()
    (tmp_path / "pyproject.toml").touch()
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\ntest $1 = -c && exit\nmkdir -p $3/bin && touch $3/bin/python && exit 1\n")
    python.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    for _ in range(2):
        done = subprocess.run(
            ["make", "run", f"PYTHON={python}"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 2
        assert f"{python} cannot make virtual environments: install its venv package" in done.stderr
