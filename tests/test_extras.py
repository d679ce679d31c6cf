"""Requirements: each is imported, each import is required, and a missing extra is named."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from pylogbroker.extras import EXTRAS, MissingExtra, required_by

ROOT = Path(__file__).parents[1]
TOKENS = (
    "--listener SASL_PLAINTEXT://127.0.0.1:0 --override sasl.enabled.mechanisms=OAUTHBEARER "
    "--override sasl.oauthbearer.jwks.endpoint.url=file:///none"
)


def requirements(text: str) -> set[str]:
    """Names in a list of requirements, as package indexes normalize them."""
    lines = (line.strip() for line in text.splitlines())
    return {normalized(re.split(r"[\[<>=;! ]", line)[0]) for line in lines if line and not line.startswith("#")}


def normalized(name: str) -> str:
    return name.lower().replace("_", "-")


@pytest.fixture(scope="module")
def metadata() -> ConfigParser:
    parser = ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """Top-level packages that the product imports, each with its distributions."""
    distributions = packages_distributions()
    own = {"pylogbroker", "pyspark_pylogbroker", *sys.stdlib_module_names}
    modules = [path for package in ("pylogbroker", "pyspark_pylogbroker") for path in ROOT.glob(f"{package}/**/*.py")]
    packages = {package for path in modules for package in imports(path)} - own
    return {package: set(map(normalized, distributions.get(package, [package]))) for package in packages}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def test_each_requirement_is_imported(metadata: ConfigParser, imported: dict[str, set[str]]) -> None:
    distributions = set().union(*imported.values())
    assert requirements(metadata["options"]["install_requires"]) <= distributions


def test_each_import_is_required(metadata: ConfigParser, imported: dict[str, set[str]]) -> None:
    hard = requirements(metadata["options"]["install_requires"])
    of_tests = {"pytest", "aiokafka", "confluent-kafka", "kafka-python"}  # fixtures for tests that have them
    extras = metadata["options.extras_require"]
    for package, distributions in imported.items():
        required = requirements(extras[EXTRAS[package]]) if package in EXTRAS else hard | of_tests
        assert distributions & required, f"{package} is imported, but not required"


def test_the_readme_names_the_extras_of_users(metadata: ConfigParser) -> None:
    extras = set(metadata["options.extras_require"]) - {"docs", "example", "test"}
    assert set(EXTRAS.values()) <= extras
    assert ", ".join(f"`{extra}`" for extra in sorted(extras)) in " ".join((ROOT / "README.md").read_text().split())


def test_a_missing_package_of_an_extra_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)
    expected = re.escape(
        f"OAUTHBEARER needs joserfc, which is not installed (extra oauth): {sys.executable} -m pip install 'joserfc"
    )
    with pytest.raises(MissingExtra, match=expected), required_by("OAUTHBEARER"):
        import joserfc.jwt  # noqa: F401


@pytest.mark.parametrize(
    ("package", "command", "error"),
    [
        ("pyspark", "load a -b 127.0.0.1:1 -t x", "the command needs pyspark, which is not installed (extra spark)"),
        (
            "joserfc",
            f"broker start --data-dir {{}}/data {TOKENS}",
            "OAUTHBEARER on the listener SASL_PLAINTEXT needs joserfc, which is not installed (extra oauth)",
        ),
        (
            "yaml",
            "verify --data-dir {} --format yaml",
            "--format yaml needs pyyaml, which is not installed (extra yaml)",
        ),
    ],
)
def test_commands_name_the_missing_extra_in_one_line(package: str, command: str, error: str, tmp_path: Path) -> None:
    script = f"import sys; sys.modules[{package!r}] = None\nfrom pylogbroker.cli import main; main()"
    arguments = [sys.executable, "-c", script, *command.format(tmp_path).split()]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1, done.stderr
    assert f"{error}: {sys.executable} -m pip install " in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_an_import_of_sparks_names_says_which_packages_are_missing() -> None:
    script = """
import sys
sys.modules["pyarrow"] = None
try:
    from pylogbroker.spark import load
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.startswith(
        "pylogbroker.spark needs pyarrow, which is not installed (extra spark): "
        f"{sys.executable} -m pip install 'pyspark"
    )


def test_other_import_errors_are_not_changed() -> None:
    with pytest.raises(ModuleNotFoundError, match="nothing_like_this"), required_by("a feature"):
        import nothing_like_this  # type: ignore[import-not-found]  # noqa: F401
