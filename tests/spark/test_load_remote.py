"""Loads into an object store: moto's S3, in this process, checked with boto3; without Spark."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from pylogbroker.errors import ConfigError
from pylogbroker.spark.loading.job import LoadFailed
from pylogbroker.spark.loading.load import paths_of
from pylogbroker.spark.loading.store import Store, TargetInUse
from tests.spark.local_load import here, load_here, manifest, records, rows, start, stray_files, upper
from tests.spark.topics import Topics

pytestmark = pytest.mark.one_broker

USER, PASSWORD = "user", "secret"
_counter = itertools.count()


class Bucket:
    """One of its own for each test."""

    def __init__(self, endpoint: str) -> None:
        self.name = f"bucket-{next(_counter)}"
        self._s3: Any = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id=USER,
            aws_secret_access_key=PASSWORD,
        )
        self._s3.create_bucket(Bucket=self.name)
        self.uri = f"s3://{USER}:{PASSWORD}@{self.name}/a/target?region=us-east-1&endpoint_override={endpoint}"

    def files(self) -> list[str]:
        """Return the objects, without the empty ones that stand for directories."""
        found = self._s3.list_objects_v2(Bucket=self.name).get("Contents", ())
        return sorted(each["Key"] for each in found if not each["Key"].endswith("/"))

    def get(self, key: str) -> bytes:
        found: bytes = self._s3.get_object(Bucket=self.name, Key=key)["Body"].read()
        return found

    def put(self, key: str, contents: bytes) -> None:
        self._s3.put_object(Bucket=self.name, Key=key, Body=contents)

    def copied(self, to: Path) -> Path:
        """A copy of the directory, in a new one."""
        for key in self.files():
            file = to / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.get(key))
        return to / "a" / "target"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str) -> Bucket:
    return Bucket(endpoint)


def values(target: Path) -> list[int]:
    return sorted(int(value.decode().split("-")[1]) for (value,) in rows(target, "value"))


def test_later_loads_add_only_new_records(topics: Topics, bucket: Bucket, tmp_path: Path) -> None:
    topic = topics.make(2, retention_ms="-1")
    topics.fill(topic, records(0, 40, 2))
    assert load_here(topics.bootstrap, topic, bucket.uri).lag == 0
    topics.fill(topic, records(40, 60, 2))
    load_here(topics.bootstrap, topic, bucket.uri)
    assert load_here(topics.bootstrap, topic, bucket.uri).entries == ()
    names = [
        f"a/target/00001/{topic}-{n}/{topic}-{n}-{a:020}-{b:020}.parquet"
        for n in (0, 1)
        for a, b in ((0, 20), (20, 30))
    ]
    assert bucket.files() == [*names, "a/target/manifest.json"]
    assert values(bucket.copied(tmp_path / "loaded")) == list(range(60))
    outcome = load_here(topics.bootstrap, topic, bucket.uri, replay=True, mapping=upper)
    assert all(entry.generation == 2 for entry in outcome.manifest.files())
    load_here(topics.bootstrap, topic, bucket.uri, keep=0.0)
    assert len(bucket.files()) == 3
    again = bucket.copied(tmp_path / "again")
    assert values(again) == list(range(60))
    assert all(value.startswith(b"again") for (value,) in rows(again, "value"))
    assert paths_of(Store.of(bucket.uri), manifest(again)) == [
        f"s3a://{bucket.name}/{key}" for key in bucket.files() if key.endswith(".parquet")
    ]


def test_killed_again_and_again(topics: Topics, bucket: Bucket, tmp_path: Path) -> None:
    topic = topics.make(2, retention_ms="-1")
    for first in range(0, 200, 10):
        topics.fill(topic, records(first, first + 10, 2))
    for more in (2, 3):
        process = start(topics.bootstrap, topic, bucket.uri, False, pause="0.3")
        before = len(bucket.files())
        while len(bucket.files()) < before + more:
            assert process.poll() is None
        process.kill()
        process.wait()
    load_here(topics.bootstrap, topic, bucket.uri)
    found = bucket.copied(tmp_path)
    assert values(found) == list(range(200))
    assert stray_files(found) == ["manifest.json"]


def test_the_second_of_two_concurrent_loads_fails(topics: Topics, bucket: Bucket, tmp_path: Path) -> None:
    """The one that finds the other's manifest fails, and deletes nothing."""
    topic = topics.make(2, retention_ms="-1")
    topics.fill(topic, records(0, 40, 2))

    def before(job, parts, tick):  # type: ignore[no-untyped-def]
        load_here(topics.bootstrap, topic, bucket.uri, file_size=1)
        return here(job, parts, tick)

    def after(job, parts, tick):  # type: ignore[no-untyped-def]
        found = here(job, parts[:1], lambda: None)
        load_here(topics.bootstrap, topic, bucket.uri)
        bucket.put(f"a/target/00001/{topic}-0/.somebodys.tmp", b"begun")
        return found

    for meanwhile, end in ((before, 40), (after, 60)):
        with pytest.raises(TargetInUse, match="its manifest has changed meanwhile") as caught:
            load_here(topics.bootstrap, topic, bucket.uri, schedule=meanwhile)
        assert PASSWORD not in str(caught.value)
        assert values(bucket.copied(tmp_path / str(end))) == list(range(end))
        topics.fill(topic, records(end, end + 20, 2))
    assert any("somebodys" in key for key in bucket.files())
    load_here(topics.bootstrap, topic, bucket.uri)
    found = bucket.copied(tmp_path / "all")
    assert values(found) == list(range(80))
    assert stray_files(found) == ["manifest.json"]


def test_a_failed_load_keeps_files_of_a_newer_load(topics: Topics, bucket: Bucket) -> None:
    topic = topics.make(1, retention_ms="-1")
    topics.fill(topic, records(0, 10))
    begun = f"a/target/00001/{topic}-0/.somebodys.tmp"

    def meanwhile(job, parts, tick):  # type: ignore[no-untyped-def]
        planned = json.loads(bucket.get("a/target/manifest.json"))
        bucket.put("a/target/manifest.json", json.dumps({**planned, "revision": "another"}).encode())
        bucket.put(begun, b"begun")
        return [], ["it failed"]

    with pytest.raises(TargetInUse):
        load_here(topics.bootstrap, topic, bucket.uri, schedule=meanwhile)
    assert begun in bucket.files()


def test_a_task_that_fails(topics: Topics, bucket: Bucket) -> None:
    topic = topics.make(1, retention_ms="-1")
    topics.fill(topic, records(0, 10))

    def fails(batch: Any) -> Any:
        if batch.num_rows:
            raise RuntimeError("no")
        return batch

    with pytest.raises(LoadFailed, match=f"{topic}/0, offset 0: the mapping failed: RuntimeError: no"):
        load_here(topics.bootstrap, topic, bucket.uri, mapping=fails)
    assert bucket.files() == ["a/target/manifest.json"]


def test_a_missing_bucket_is_an_error(bucket: Bucket) -> None:
    with (
        pytest.raises(OSError, match="no-such-bucket"),
        Store.of(bucket.uri.replace(bucket.name, "no-such-bucket")).locked(),
    ):
        pass
    bucket.put("a/target", b"a file")
    with (
        pytest.raises(ConfigError, match=f"target: s3a://{bucket.name}/a/target is a file"),
        Store.of(bucket.uri).locked(),
    ):
        pass
