"""The checks of texts and names, each on a few lines of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint import __main__ as command
from tests.lint import checks
from tests.lint.glossary import AvoidedTerm, Glossary, GlossaryError
from tests.lint.texts import (
    Kind,
    Name,
    PythonFile,
    Text,
    defined_names,
    markdown_texts,
    public_classes,
    python_texts,
    sentences,
)

PATH = Path("pylogbroker/module.py")
GIZMO = AvoidedTerm("gizmo", "part", ("fast gizmo", "GIZMO_ID"))
SOURCE = '''"""Module head."""
# A comment.
LIMIT = 3  # bytes
class Outer:
    """Outer class."""
    text = "a message"
    key = "word"
    def method(self, first, *rest, **options):
        """Return `first`."""
        self.attribute = first
        for each in rest:
            pass
        return f"a message of {first} parts"
'''


def text(content: str, kind: Kind = Kind.DOCSTRING, path: Path = PATH) -> Text:
    return Text(path, 1, kind, content)


class TestTexts:
    def test_python(self) -> None:
        found = {(each.kind, each.line, each.content) for each in python_texts(PythonFile(PATH, SOURCE))}
        assert found == {
            (Kind.DOCSTRING, 1, "Module head."),
            (Kind.DOCSTRING, 5, "Outer class."),
            (Kind.DOCSTRING, 9, "Return `first`."),
            (Kind.COMMENT, 2, "A comment."),
            (Kind.COMMENT, 3, "bytes"),
            (Kind.MESSAGE, 6, "a message"),
            (Kind.MESSAGE, 13, "a message of "),
        }

    @pytest.mark.parametrize(
        "line",
        [
            "a = '#'",
            r'a = "\"#"',
            r"a = b'\\' b'#'",
            'a = """#\n"#"\n"""',
            "a = f'{b}#{c}'",
            r"a = r'\#'",
            r"a = '''\''' # '''",
            "a = ''",
        ],
    )
    def test_comments_are_not_in_strings(self, line: str) -> None:
        file = PythonFile(PATH, f"{line}  # A comment.\n")
        comments = [each for each in python_texts(file) if each.kind is Kind.COMMENT]
        assert comments == [Text(PATH, line.count("\n") + 1, Kind.COMMENT, "A comment.")]

    def test_names_where_they_are_defined(self) -> None:
        found = {each.name for each in defined_names(PythonFile(PATH, SOURCE))}
        assert found == {
            *(
                "module",
                "LIMIT",
                "Outer",
                "text",
                "key",
                "method",
                "self",
                "first",
                "rest",
                "options",
                "attribute",
                "each",
            ),
        }

    def test_a_package_is_named_by_its_folder(self) -> None:
        assert [each.name for each in defined_names(PythonFile(Path("pylogbroker/net/__init__.py"), ""))] == ["net"]

    def test_only_top_level_classes_are_public(self) -> None:
        source = "class A:\n    class B: ...\nclass _C: ...\n"
        assert [each.name for each in public_classes(PythonFile(PATH, source))] == ["A"]

    def test_markdown_without_its_code(self) -> None:
        page = (
            "# Title\n\nOne\ntwo.\n\n- item\n\n```python\nlane = 1\n```\n\n    indented = 1\n\n| a | b |\n|---|---|\n"
        )
        assert [(each.line, each.content) for each in markdown_texts(PATH, page)] == [
            (1, "# Title"),
            (3, "One\ntwo."),
            (6, "- item"),
            (14, "| a | b |"),
            (15, "|---|---|"),
        ]

    def test_prose_has_no_code_spans(self) -> None:
        assert text("Call\n  `producer.room()` now.").prose == "Call now."

    def test_sentences(self) -> None:
        docstring = """Head, e.g. this. Second?

    Wrapped over
    two lines.

        code = "left. out."

    - An item
      in two lines.
    | a table | left. out. |

    field   left. out.
    another  2 bytes

    A gap.  Between sentences.
    """
        assert list(sentences(docstring)) == [
            "Head, e.g this.",
            "Second?",
            "Wrapped over two lines.",
            "- An item",
            "A gap.",
            "Between sentences.",
        ]


class TestBeginnings:
    @pytest.mark.parametrize(
        "content",
        [
            *("The same, clamped.", "That of the log.", "It happened.", "What comes.", "Who asks.", "\n    Where."),
            *(
                "Of the log.",
                "By offset.",
                "In use.",
                "As asked.",
                "For tests.",
                "From 0.",
                "With headers.",
                "None here.",
            ),
            *("Those of a log.", "Whether it is.", "Between two.", "After that.", "Then it ends.", "When it ends."),
            *("Also here.", "Up to there.", "Neither is."),
        ],
    )
    def test_bad_beginnings_are_found(self, content: str) -> None:
        [found] = checks.bad_beginnings([text(content)])
        assert "begin with a verb or a noun" in found.message

    @pytest.mark.parametrize(
        "content",
        ["Return it.", "Items.", "Whole segments.", "Thatched.", "The samest.", "Forget it.", "Inside.", "In-sync."],
    )
    def test_good_beginnings_are_accepted(self, content: str) -> None:
        assert list(checks.bad_beginnings([text(content)])) == []

    def test_comments_may_begin_as_they_like(self) -> None:
        assert list(checks.bad_beginnings([text("It is late.", Kind.COMMENT)])) == []


class TestAvoidedTerms:
    @pytest.mark.parametrize("content", ["A gizmo.", "the Gizmo's end", "one gizmo\nand"])
    def test_avoided_terms_in_texts_are_found(self, content: str) -> None:
        [found] = checks.avoided_in_texts([text(content, Kind.COMMENT)], [GIZMO])
        assert str(found) == f'{PATH}:1: the comment has the avoided term "gizmo": write part'

    @pytest.mark.parametrize("content", ["An agizmo.", "The fast gizmo.", "`gizmo` is code", "gizmos"])
    def test_similar_words_in_texts_are_accepted(self, content: str) -> None:
        assert list(checks.avoided_in_texts([text(content)], [GIZMO])) == []

    def test_the_term_itself_is_allowed_as_a_name_only(self) -> None:
        term = AvoidedTerm("gizmo", "part", ("gizmo",))
        assert list(checks.avoided_in_texts([text("A gizmo.")], [term]))
        assert not list(checks.avoided_in_names([Name(PATH, 1, "gizmo")], [term]))
        assert list(checks.avoided_in_names([Name(PATH, 1, "a_gizmo")], [term]))

    def test_a_phrase(self) -> None:
        term = AvoidedTerm("both kinds", "both brokers")
        assert list(checks.avoided_in_texts([text("of both\nkinds.")], [term]))
        assert list(checks.avoided_in_names([Name(PATH, 1, "test_both_kinds")], [term]))
        assert not list(checks.avoided_in_names([Name(PATH, 1, "kinds_both")], [term]))

    @pytest.mark.parametrize("name", ["gizmo", "_gizmo", "GIZMO", "Gizmo", "FastGizmoQueue", "a_gizmo_of", "HTTPGizmo"])
    def test_avoided_terms_in_names_are_found(self, name: str) -> None:
        [found] = checks.avoided_in_names([Name(PATH, 7, name)], [GIZMO])
        assert str(found) == f'{PATH}:7: the name {name} has the avoided term "gizmo": write part'

    @pytest.mark.parametrize("name", ["agizmo", "gizmos", "Gizmoer", "GIZMO_ID"])
    def test_similar_words_in_names_are_accepted(self, name: str) -> None:
        assert list(checks.avoided_in_names([Name(PATH, 1, name)], [GIZMO])) == []

    def test_an_ending(self) -> None:
        many = AvoidedTerm("_MANY", "RECORDS_MAX")
        found = checks.avoided_in_names(
            [Name(PATH, 1, name) for name in ("MANY", "_MANY", "GET_MANY", "get_many")], [many]
        )
        assert [each.message.split()[2] for each in found] == ["MANY", "_MANY", "GET_MANY"]
        assert not many.is_in_text("MANY things")

    def test_a_folder_may_be_free(self) -> None:
        term = AvoidedTerm("watcher", "delayed fetch", ("pylogbroker/tree/",))
        free, checked = (text("A watcher.", path=Path(path)) for path in ("pylogbroker/tree/a.py", "pylogbroker/b.py"))
        assert [each.path for each in checks.avoided_in_texts([free, checked], [term])] == [checked.path]
        assert not list(checks.avoided_in_names([Name(free.path, 1, "Watcher")], [term]))


class TestNamesOfTests:
    @pytest.mark.parametrize("name", ["test_what_is_left", "test_who_waits", "test_it", "test_but_not_here"])
    def test_bad_beginnings_are_found(self, name: str) -> None:
        [found] = checks.bad_test_names([Name(PATH, 7, name)])
        assert str(found).startswith(f"{PATH}:7: the name {name} begins with ")

    @pytest.mark.parametrize("name", ["test_items", "test_errors_say_what_failed", "what_is_left", "test_sound"])
    def test_good_beginnings_are_accepted(self, name: str) -> None:
        assert list(checks.bad_test_names([Name(PATH, 7, name)])) == []


class TestClassNames:
    USES = (Name(Path("a.py"), 1, "Message"), Name(Path("b.py"), 5, "Message"), Name(Path("b.py"), 9, "Other"))

    def test_used_twice(self) -> None:
        [found] = checks.repeated_classes(self.USES, {})
        assert str(found).startswith("b.py:5: the class name Message is used in a.py too")

    def test_with_a_reason(self) -> None:
        assert list(checks.repeated_classes(self.USES, {"Message": "two protocols"})) == []

    def test_a_reason_that_is_not_needed(self) -> None:
        [found] = checks.repeated_classes(self.USES, {"Message": "two protocols", "Other": "none"})
        assert "Other is not used more than once" in found.message


def test_long_sentences() -> None:
    words = "word " * 30
    assert list(checks.long_sentences([text(f"{words.strip()}. {words}")])) == []
    [found] = checks.long_sentences([text(f"Short. More {words}and more.")])
    assert "a sentence of 33 words" in found.message
    assert list(checks.long_sentences([text(f"More {words}", Kind.COMMENT)])) == []


class TestGlossary:
    PAGE = """# Glossary

## Avoided terms

| avoid | write | allowed |
|---|---|---|
| `gizmo`, `gizmos` | part | `fast gizmo`, `spark/` |
| `told` | reported | |

## Class names used more than once

| name | reason |
|---|---|
| `Message` | two protocols |
"""

    def test_tables(self, tmp_path: Path) -> None:
        (tmp_path / "glossary.md").write_text(self.PAGE)
        glossary = Glossary.read(tmp_path / "glossary.md")
        assert glossary.avoided == [
            AvoidedTerm("gizmo", "part", ["fast gizmo", "spark/"]),
            AvoidedTerm("gizmos", "part", ["fast gizmo", "spark/"]),
            AvoidedTerm("told", "reported", []),
        ]
        assert glossary.repeated == {"Message": "two protocols"}

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("## Avoided terms", "## Terms", "no heading 'Avoided terms'"),
            ("| `told` | reported | |\n", "| `told` | reported |\n", "2 cells, expected 3"),
            ("`", "", "no table of avoided terms"),
        ],
    )
    def test_damaged_tables(self, tmp_path: Path, old: str, new: str, message: str) -> None:
        (tmp_path / "glossary.md").write_text(self.PAGE.replace(old, new))
        with pytest.raises(GlossaryError, match=message):
            Glossary.read(tmp_path / "glossary.md")


class TestCommand:
    @pytest.mark.parametrize(
        ("findings", "counted", "status"),
        [(0, 2, 0), (0, 1, 0), (0, 3, 1), (1, 0, 1)],
    )
    def test_status(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
        findings: int,
        counted: int,
        status: int,
    ) -> None:
        (tmp_path / "pyproject.toml").write_text("[tool.text-lint]\nlong_sentences = 2\nvague_names = 0\n")
        monkeypatch.setattr(command, "ROOT", tmp_path)
        finding = checks.Finding(PATH, 1, "the finding")
        counts = {"long_sentences": [finding] * counted, "vague_names": []}
        monkeypatch.setattr(command, "run", lambda: ([finding] * findings, counts))
        assert command.main([]) == status
        shown = capsys.readouterr().out
        assert shown.count("the finding") == findings
        assert ("allowed: 2" in shown) == (counted > 2)
        assert ("Set long_sentences in pyproject.toml to" in shown) == (counted < 2)
        command.main(["--list", "long_sentences"])
        assert capsys.readouterr().out.count("the finding") == findings + counted


def test_vague_names_are_found() -> None:
    names = [Name(PATH, line, name) for line, name in enumerate(("found", "partition", "each", "founder"), 1)]
    assert [finding.line for finding in checks.vague_names(names)] == [1, 3]


def test_dropped_coroutines() -> None:
    source = "\n".join(
        (
            "ensureDeferred(work())",
            "Deferred.fromCoroutine(work())",
            "ensureDeferred(work()).addErrback(log)",
            "done = ensureDeferred(work())",
            "run_in_background(log, work(), 'work failed')",
        )
    )
    assert [each.line for each in checks.dropped_coroutines(PythonFile(PATH, source))] == [1, 2]


def test_awaits_in_cleanup() -> None:
    source = """async def work():
    try:
        await begin()
    except Exception:
        await end()
    except BaseException:
        await end()
    finally:
        close()
        await end()

async def other():
    try:
        await begin()
    except GeneratorExit:
        raise
    except BaseException:
        await end()
    finally:
        def later():
            async def end():
                await close()
"""
    assert [each.line for each in checks.awaits_in_cleanup(PythonFile(PATH, source))] == [10, 7]


def test_digits_of_all_scripts_are_found() -> None:
    source = "def read(text: str) -> bool:\n    return text.isascii() and text.isdigit()\n"
    [finding] = checks.digits_of_all_scripts(PythonFile(PATH, source))
    assert (finding.line, finding.message.partition(" ")[0]) == (2, "isdigit")
    assert list(checks.digits_of_all_scripts(PythonFile(Path("pylogbroker/java/text.py"), source))) == []


def test_plurals_behind_a_number_are_found() -> None:
    source = """
show(f"{len(sent)} records were sent")
show(f"{counted(len(sent), 'record')} of {name}, {rate:.0f} records/s, the first {ROWS_MAX} rows")
show(f"of {read.count} dead letters")
"""
    command = PythonFile(Path("pylogbroker/cli/produce.py"), source)
    assert [finding.line for finding in checks.fixed_plurals(command)] == [2, 4]
    assert list(checks.fixed_plurals(PythonFile(PATH, source))) == []


def test_reprs_that_show_all_that_an_object_refers_to_are_found() -> None:
    lines = [
        "@attrs.define(eq=False)\nclass Server: ...",
        "@attrs.frozen(eq=False, repr=False)\nclass Quiet: ...",
        "@attrs.frozen\nclass Value: ...",
    ]
    found = [finding for line in lines for finding in checks.endless_reprs(PythonFile(PATH, line))]
    assert [finding.message.split()[3] for finding in found] == ["Server"]


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ('config.integer("num.partitions")', 1),
        ('services.config.optional_text("broker.rack")', 1),
        ("config.integer(name)", 0),
        ("config.num_partitions", 0),
        ("writer.integer(1)", 0),
    ],
)
def test_settings_that_are_read_by_a_literal_name_are_found(line: str, count: int) -> None:
    assert len(list(checks.settings_by_name(PythonFile(PATH, line)))) == count
