"""Regular expressions beside Java's: random ones, whose answers Java has given, and those that are errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylogbroker.java.pattern import STEPS_MAX, Captures, Pattern, TooManySteps
from pylogbroker.java.pattern_syntax import PatternError
from tests.java.random_patterns import random_cases
from tests.peers.java import Program
from tests.support.oracle_answers import OracleAnswers

PROGRAM = Program(Path(__file__).parent / "Patterns.java")
CASES = 2500
SEED = 29


def hex_of(text: str) -> str:
    return text.encode().hex()


def spans(captures: Captures, uncertain: frozenset[int]) -> str:
    """Write the captures as `Patterns.java` does, with `?` for those that are not promised."""
    return ":".join(
        "?"
        if group in uncertain
        else "-"
        if captures[2 * group] < 0
        else f"{captures[2 * group]},{captures[2 * group + 1]}"
        for group in range(len(captures) // 2)
    )


def masked(answer: str, uncertain: frozenset[int]) -> str:
    return (
        ":".join("?" if group in uncertain else span for group, span in enumerate(answer.split(":"))) if answer else ""
    )


def test_random_patterns_match_as_in_java(oracle: OracleAnswers) -> None:
    cases = random_cases(SEED, CASES)
    question = "".join(" ".join(map(hex_of, (pattern, *texts))) + "\n" for pattern, texts in cases)
    answers = oracle.answer("regular-expressions", question, lambda: PROGRAM.run(input=question).stdout.splitlines())
    compared = 0
    for (text, names), answer in zip(cases, answers, strict=True):
        try:
            pattern = Pattern.compile(text)
        except PatternError:
            continue
        assert answer != "error", ascii(text)
        for name, theirs in zip(names, answer.split(" "), strict=True):
            whole, _, found = theirs.partition("/")
            match = pattern.full_match(name)
            ours = "" if match is None else spans(match.captures, pattern.uncertain)
            assert ours == masked(whole, pattern.uncertain), ascii((text, name))
            all_ours = [spans(each.captures, pattern.uncertain) for each in pattern.find_all(name)]
            all_theirs = [masked(each, pattern.uncertain) for each in found.split(";") if each]
            assert all_ours == all_theirs, ascii((text, name))
            compared += 1
    assert compared > CASES  # most patterns are read


def matches(pattern: str, text: str) -> bool:
    return Pattern.compile(pattern).full_match(text) is not None


def test_classes_and_case_are_those_of_ascii() -> None:
    for pattern, text in ((r"\w", "\u212a"), (r"\w", "é"), (r"\d", "\u0661"), (r"\s", "\xa0"), ("(?i)k", "\u212a")):
        assert not matches(pattern, text), pattern
    assert matches("(?i)[a-k]", "K")
    for end in "\n\r\x85\u2028\u2029":
        assert not matches(".", end)
        assert matches("(?s).", end)


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        (r"(a)\1", "back references"),
        (r"(?<n>a)\k<n>", "back references"),
        ("(?<=a)b", "look-behind"),
        ("(?<!a)b", "look-behind"),
        (r"\Ga", r"\\G"),
        (r"\X", r"\\X"),
        (r"\N{BULLET}", "names of characters"),
        ("(?m)^a$", "the flag m"),
        ("(?u)a", "the flag u"),
        (r"\p{IsAlphabetic}", "the property IsAlphabetic"),
        (r"(?i)\p{Lower}", "the property Lower"),
        ("[^a[b]]", "with a class in it"),
        ("[a-z&&b[c]]", "characters and a class together"),
        ("(a*)*", "that may match nothing"),
        (r"\R+", r"a repetition of \\R"),
        (r"\b{g}", r"\\b\{"),
        ("(a", "unclosed group"),
        ("a)", "unmatched closing"),
        ("[a", "unclosed character class"),
        ("[z-a]", "illegal range"),
        ("*", "dangling"),
        ("a**", "dangling"),
        ("a{2,1}", "illegal repetition"),
        ("a{x}", "illegal repetition"),
        ("a{9999}", "more than 1000 times"),
        ("(?:a{1000}){1000}", "repeats too much"),
        (r"\y", "illegal escape"),
        ("a\\", "illegal escape"),
        (r"\ud83d", "surrogate"),
        ("(" * 5000, "nested too deeply"),
    ],
)
def test_errors_name_the_construct(pattern: str, named: str) -> None:
    with pytest.raises(PatternError, match=named):
        Pattern.compile(pattern)


def test_patterns_of_exponential_time_are_decided_or_end_with_an_error() -> None:
    for pattern in ("(a+)+b", "(?:a|a)*b", "(?:a|aa)+b"):
        assert not matches(pattern, "a" * 500), pattern
    with pytest.raises(TooManySteps):
        matches(".*.*.*=.*", "a" * STEPS_MAX)


def test_names_of_a_thousand_characters_are_compared() -> None:
    name = "CN=" + "a" * 900 + ",OU=" + "b" * 60 + ",O=c,L=d,ST=e,C=DE"
    match = Pattern.compile("^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$").full_match(name)
    assert match is not None
    assert (match.group(1), match.group(6)) == ("a" * 900, "DE")
