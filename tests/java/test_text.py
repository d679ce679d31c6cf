"""Settings' texts beside Kafka's own parser, whose answers are recorded."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from pylogbroker.config.value_kinds import VERBATIM_PASSWORD, ConfigType, ValueKind, render
from pylogbroker.java.text import is_digits, parse_double, render_double
from tests.peers.java import Program
from tests.support.oracle_answers import OracleAnswers

PROGRAM = Program(Path(__file__).parent / "Values.java", clients="clients-3.9")
TYPES = ("BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "PASSWORD")
TEXTS = [
    *(
        "1",
        "+1",
        "-1",
        " 1\t",
        "\x001\x1f",
        "\xa01",
        "1\xa0",
        "\u20031",
        "1_000",
        "1 0",
        "--1",
        "+",
        "",
        " ",
        "01",
        "1e3",
    ),
    *("2147483647", "2147483648", "-2147483649", "32768", "9223372036854775807", "9223372036854775808", "0" * 60 + "7"),
    *("0x10", "1L", "1.", ".5", ".", "1.5f", "1.5D", "1_0e-2", "1e", "0x1p-1", "0X.8P0", "0x1.p3F", "0x1.8", "0x.p1"),
    *("0x1p99999999999", "0x1p-99999999999", "1e999", "-1e-999", "NaN", "-NaN", "nan", "Infinity", "inf", "Infinityd"),
    *("\u0660.\u0665", "1e+7", "9999999", "0.001", "0.0009", "123456789.125", "4.35", "-0.0", "5e-324", "1e21", "1e16"),
    *("true", "TRUE", " False ", "true\xa0", "yes", "1true", "a,b", " a , b ", "a,,b,", ",", "a\xa0,\xa0b", "a\x0b,b"),
    *("  secret  ", "\xa0secret\xa0", "a b"),
]


def test_values_are_read_as_kafka_reads_them(oracle: OracleAnswers) -> None:
    random = Random(29)
    texts = [*TEXTS, *("".join(random.choice("0123456789+-.eExXpPfFdD_ ") for _ in range(4)) for _ in range(300))]
    cases = [(kind, text) for kind in TYPES for text in (texts if kind in ("INT", "DOUBLE") else TEXTS)]
    question = "".join(f"{kind} {text.encode().hex()}\n" for kind, text in cases)
    answers = oracle.answer("setting-values", question, lambda: PROGRAM.run(input=question).stdout.splitlines())
    for (kind, text), answer in zip(cases, answers, strict=True):
        try:
            value = ValueKind(ConfigType[kind]).parse(text)
        except ValueError:
            ours = "error"
        else:
            ours = "=" + (render(value) or "").encode().hex()
        # NaN is a number of Java, but the value of no setting
        assert ours == ("error" if answer == "=" + b"NaN".hex() and kind == "DOUBLE" else answer), (kind, ascii(text))


def test_passwords_of_librdkafka_keep_their_whitespace() -> None:
    assert VERBATIM_PASSWORD.parse(" secret\t") == " secret\t"


@pytest.mark.parametrize("text", ["²", "\u0661", "+1", "-1", "1_0", " 1", ""])
def test_other_digits_are_none(text: str) -> None:
    assert not is_digits(text)


def test_doubles_come_back() -> None:
    random = Random(29)
    for _ in range(1000):
        value = random.uniform(-1, 1) * 10.0 ** random.randint(-320, 308)
        assert parse_double(render_double(value)) == value
