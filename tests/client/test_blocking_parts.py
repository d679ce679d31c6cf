"""Types of the admin client without Deferreds, as programs with strict types see them."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cached_property
from pathlib import Path

from mypy import api

from pylogbroker.client.admin.parts import AdminParts
from pylogbroker.client.sync import admin_parts
from pylogbroker.client.sync.parts import BlockingParts, PartAttribute
from tests.client.blocking_parts import source

ROOT = Path(__file__).parents[2]
PROGRAM = """
from pylogbroker.client.admin import NewTopic
from pylogbroker.client.sync import AdminClient

with AdminClient("127.0.0.1:9092") as admin:
    reveal_type(admin.topics.create([NewTopic("returns")], timeout=5))
    reveal_type(admin.groups.offsets("billing")["returns", 0].offset)
    reveal_type([each.name for each in admin.topics.list()])
    reveal_type(admin.groups.delete(["billing"]))
    admin.topics.create("returns")
    admin.topics.list(internal=True)
    admin.topics.drop(["returns"])
    admin.nothing.list()
"""
MESSAGES = [
    'note: Revealed type is "dict[str, pylogbroker.client.admin.topics.CreatedTopic]"',
    'note: Revealed type is "int"',
    'note: Revealed type is "list[str]"',
    'note: Revealed type is "None"',
    'error: Argument 1 to "create" of "BlockingTopicAdmin" has incompatible type "str"; expected "Iterable[NewTopic]"',
    'error: Unexpected keyword argument "internal" for "list" of "BlockingTopicAdmin"',
    'error: "BlockingTopicAdmin" has no attribute "drop"',
    'error: "AdminClient" has no attribute "nothing"',
]


def declarations(text: str) -> tuple[set[str], list[str]]:
    """Return the imports and the classes of a module, whatever their format."""
    imports, classes = set[str](), []
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            imports |= {f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.ClassDef):
            classes.append(ast.dump(node))
    return imports, classes


def test_the_types_are_those_of_the_asynchronous_methods() -> None:
    """To write them again: python -m tests.client.blocking_parts."""
    assert declarations(inspect.getsource(admin_parts)) == declarations(source())


def test_each_part_has_its_type() -> None:
    parts = [noun for noun, found in vars(AdminParts).items() if isinstance(found, cached_property)]
    assert [noun for noun, found in vars(BlockingParts).items() if isinstance(found, PartAttribute)] == parts
    for noun in parts:
        made = inspect.get_annotations(vars(AdminParts)[noun].func)["return"]
        assert inspect.get_annotations(BlockingParts)[noun] == f"PartAttribute[Blocking{made}]"


def test_a_type_checker_sees_results_and_arguments(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    out, problems, _ = api.run(["--config-file", str(ROOT / "pyproject.toml"), str(program)])
    assert not problems
    lines = [line.partition(": ")[2] for line in out.splitlines()[:-1]]
    found = [line for line in lines if "Revealed" in line or line.startswith("error")]
    assert [re.sub(r"  \[[\w-]+\]$", "", message.replace("builtins.", "")) for message in found] == MESSAGES, out
