"""Rates and buckets: values worked out from Kafka's formulas, and those of Kafka's own classes."""

from __future__ import annotations

from pathlib import Path
from random import Random

from pylogbroker.security.quotas.rates import MEASURES_MAX, Measures, SampledRate, TokenBucket, Windows
from tests.peers.java import Program
from tests.support.oracle_answers import OracleAnswers

PROGRAM = Program(Path(__file__).with_name("Rates.java"), "clients-3.9")
START = 1_700_000_000_000


def used(rate: SampledRate, value: float, now_ms: int, quota: float) -> int:
    rate.record(value, now_ms)
    return rate.throttle_ms(quota, now_ms)


def test_ten_seconds_of_the_quota_pass_at_once() -> None:
    rate = SampledRate(Windows())
    assert used(rate, 10_000, START, 1000) == 0
    # 11,000 in 10 s: a rate of 1100, and (1100 - 1000) / 1000 * 10 s
    assert used(rate, 1000, START, 1000) == 1000
    # taken back: 10,000 in 10.5 s
    assert used(rate, -1000, START + 500, 1000) == 0


def test_rate_over_the_windows_that_are_kept() -> None:
    rate = SampledRate(Windows(samples=3, seconds=2))
    assert used(rate, 400, START, 100) == 0  # 400 in the two whole windows of 2 s
    # 600 in 1.999 s, and in two windows before
    assert used(rate, 200, START + 1999, 100) == round((600 / 5.999 - 100) / 100 * 5999) == 1
    assert used(rate, 300, START + 2000, 100) == round((900 / 4.0 - 100) / 100 * 4000)
    # 4 s since the first window began: it is a whole one of two
    assert used(rate, 100, START + 4000, 100) == round((1000 / 4.0 - 100) / 100 * 4000)
    assert used(rate, 0, START + 6000, 100) == round((1000 / 6.0 - 100) / 100 * 6000)
    # 6 s after its last use, the first window counts no more: 300 + 100 since START + 2000
    assert used(rate, 50, START + 7999, 100) == 0


def test_an_idle_client_may_use_its_quota_of_ten_seconds_again() -> None:
    rate = SampledRate(Windows())
    assert used(rate, 20_000, START, 1000) == 10_000
    assert used(rate, 10_000, START + 11_000, 1000) == 0


def test_bucket_keeps_the_tokens_of_all_windows() -> None:
    bucket = TokenBucket(Windows(samples=11, seconds=1))
    bucket.take(22, quota=2, now_ms=START)
    assert bucket.throttle_ms(2, START) == 0
    bucket.take(3, quota=2, now_ms=START)
    assert bucket.throttle_ms(2, START) == 1500
    assert bucket.throttle_ms(2, START + 1000) == 500
    bucket.take(0, quota=2, now_ms=START + 3_600_000)
    bucket.take(23, quota=2, now_ms=START + 3_600_000)
    assert bucket.throttle_ms(2, START + 3_600_000) == 500


def test_throttle_times_match_kafkas_classes(oracle: OracleAnswers) -> None:
    random = Random(16)
    question: list[str] = []
    ours: list[int] = []
    for _ in range(60):
        windows = Windows(random.choice([1, 2, 11]), random.choice([1, 3]))
        quota = random.choice([0.5, 7.25, 1000.0, 1048576.0])
        is_rate = random.random() < 0.7
        question.append(f"{'rate' if is_rate else 'bucket'} {windows.samples} {windows.seconds} {quota}")
        rate, bucket, now_ms = SampledRate(windows), TokenBucket(windows), START
        for _ in range(40):
            now_ms += random.choice([0, 0, 1, 37, 400, 999, 1000, 1001, 5000, 40_000])
            value = round(random.expovariate(1 / (quota * random.choice([0.2, 1, 4]))), 3)
            question.append(f"record {value} {now_ms}")
            if is_rate:
                ours.append(used(rate, value, now_ms, quota))
            else:
                bucket.take(value, quota, now_ms)
                ours.append(bucket.throttle_ms(quota, now_ms))
    text = "\n".join([*question, ""])
    assert ours == oracle.answer("quota-rates", text, lambda: list(map(int, PROGRAM.run(input=text).stdout.split())))


def test_idle_measures_are_forgotten_beyond_a_number() -> None:
    forgotten: list[int] = []
    measures = Measures[int, SampledRate](Windows(), SampledRate, lambda: forgotten.append(len(measures)))
    for number in range(MEASURES_MAX):
        measures.of(number, START).record(1, START + number)
    assert (len(measures), forgotten) == (MEASURES_MAX, [])
    busy = measures.of(MEASURES_MAX - 1, START)
    now_ms = START + MEASURES_MAX + Windows().samples * 1000 - 10  # all but the last ten are idle
    measures.of(-1, now_ms)
    assert forgotten == [9]
    assert measures.of(MEASURES_MAX - 1, now_ms) is busy
    assert len(measures) == 10
