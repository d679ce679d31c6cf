"""Checks of the project's language: `python -m tests.lint` runs them, as `make lint` does.

- A docstring begins with a verb or a noun.
- Names and texts avoid the terms that docs/glossary.md lists as avoided.
- No public class of the package shares its name with another one, unless docs/glossary.md gives the reason.
- Few sentences in docstrings have more than 30 words; `[tool.text-lint]` in pyproject.toml has the number allowed.
- Tests that depend on wall time are in `tests/wall_time.toml`, with the reason.
"""
