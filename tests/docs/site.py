"""Hooks of mkdocs: pages of the site that are written elsewhere, and links between pages.

index.md, architecture.md, ...      pages beside docs/, with links as seen from docs/
reference/<package>.md              each public name of a package, from its docstrings
`docs/security.md` in a page        a link to that page
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
BESIDE_DOCS = {
    "index.md": "README.md",
    "architecture.md": "ARCHITECTURE.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
"""Pages of the site by files of the project."""


def on_files(files: Files, config: Any) -> Files:
    for page, name in BESIDE_DOCS.items():
        text = (ROOT / name).read_text().replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    for page in re.findall(r"reference/([a-z_.]+)\.md", (ROOT / "mkdocs.yml").read_text()):
        files.append(File.generated(config, f"reference/{page}.md", content=reference(f"pylogbroker.{page}")))
    for file in files:
        if file.src_uri.startswith("decisions/") and file.src_uri != "decisions/README.md":
            file.inclusion = file.inclusion.__class__.NOT_IN_NAV
    return files


def reference(package: str) -> str:
    """Return a page with all public names of a package."""
    path = ROOT.joinpath(*package.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    module = ast.parse(path.read_text())
    names = "\n\n".join(f"::: {package}.{name}" for name in public_names(module))
    summary = (ast.get_docstring(module) or "").split("\n\n")[0]
    return f"# {package}\n\n{summary}\n\n{names}\n"


def public_names(module: ast.Module) -> list[str]:
    """Return the names in `__all__`, or classes and functions without an underscore."""
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    defined = (node for node in module.body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return [node.name for node in defined if not node.name.startswith("_")]


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Make links of names of pages, except in headings and code blocks."""
    pages = {file.src_uri: file for file in files.documentation_pages()}
    own = page.file.src_uri
    up = "../" * own.count("/")
    others = {name: target for target, name in BESIDE_DOCS.items()}

    def link(match: re.Match[str]) -> str:
        name = match[1]
        target = others.get(name) or name.removeprefix("docs/")
        return f"[{match[0]}]({up}{target})" if target in pages and target != own else match[0]

    for name, target in others.items():
        markdown = markdown.replace(f"](../{name})", f"]({up}{target})")
    lines, in_code = [], False
    for line in markdown.splitlines():
        in_code ^= line.startswith("```")
        is_text = not in_code and not line.startswith(("    ", "#"))
        lines.append(re.sub(r"(?<!\[)`((?:docs/)?[A-Za-z0-9_-]+\.md)`", link, line) if is_text else line)
    return "\n".join(lines)
