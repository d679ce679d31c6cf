"""The built-in remote storages: objects that are written whole, read in parts, listed and deleted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from moto.server import ThreadedMotoServer

from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces.remote_storage import IRemoteStorage
from pylogbroker.storage.remote import contents, deletion, object_names
from pylogbroker.storage.remote.checked_store import CheckedStore
from pylogbroker.storage.remote.object_names import SegmentName
from pylogbroker.tap.plugins import remote_storage

ENABLED = {"remote.log.storage.system.enable": "true"}


def opened(text: str) -> IRemoteStorage:
    storage = remote_storage(BrokerConfig(ENABLED | {"remote.log.storage": text}))
    assert storage is not None
    return storage


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    """An S3-like store on a free port of the loopback interface."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A setting for a bucket of its own."""
    import boto3

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    name = f"bucket-{uuid4()}"
    boto3.client("s3", endpoint_url=f"http://{s3_endpoint}", region_name="us-east-1").create_bucket(Bucket=name)
    return f"s3://{name}/some/prefix?endpoint_override={s3_endpoint}&scheme=http&region=us-east-1"


@pytest.fixture(params=["directory", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> IRemoteStorage:
    if request.param == "directory":
        return opened(f"directory:{tmp_path}")
    return opened(request.getfixturevalue("bucket"))


def listed(storage: IRemoteStorage, prefix: str) -> dict[str, int]:
    return {found.name: found.size for found in storage.list(prefix)}


def test_an_object_is_read_in_parts(storage: IRemoteStorage) -> None:
    data = os.urandom(6 << 20)
    storage.put("topic/0/segment.log", (data[start : start + 100_000] for start in range(0, len(data), 100_000)))
    assert storage.read("topic/0/segment.log", 0, 10) == data[:10]
    assert storage.read("topic/0/segment.log", 5_000_000, 1 << 20) == data[5_000_000 : 5_000_000 + (1 << 20)]
    assert storage.read("topic/0/segment.log", len(data) - 5, 10) == data[-5:]
    assert storage.read("topic/0/segment.log", len(data), 10) == b""


def test_objects_are_listed_by_prefix_with_their_sizes(storage: IRemoteStorage) -> None:
    assert listed(storage, "topic/0/") == {}
    for name, size in (("topic/0/a.log", 3), ("topic/0/b.log", 0), ("topic/01/c.log", 5)):
        storage.put(name, [b"x" * size])
    assert listed(storage, "topic/0/") == {"topic/0/a.log": 3, "topic/0/b.log": 0}
    assert listed(storage, "topic/") == {"topic/0/a.log": 3, "topic/0/b.log": 0, "topic/01/c.log": 5}


def test_a_deleted_object_is_gone_and_others_are_not(storage: IRemoteStorage) -> None:
    for name in ("topic/0/a.log", "topic/0/b.log"):
        storage.put(name, [b"xyz"])
    storage.delete("topic/0/a.log")
    storage.delete("topic/0/a.log")
    assert listed(storage, "topic/0/") == {"topic/0/b.log": 3}
    storage.delete("topic/0/b.log")
    assert listed(storage, "topic/") == {}
    with pytest.raises(FileNotFoundError):
        storage.read("topic/0/a.log", 0, 1)
    storage.put("topic/0/a.log", [b"again"])
    assert storage.read("topic/0/a.log", 0, 10) == b"again"


def test_an_object_is_replaced_as_a_whole(storage: IRemoteStorage) -> None:
    storage.put("topic/a", [b"long content"])
    storage.put("topic/a", [b"short"])
    assert storage.read("topic/a", 0, 100) == b"short"


def test_a_file_that_is_not_complete_has_no_name(tmp_path: Path) -> None:
    storage = opened(f"directory:{tmp_path}")

    def parts() -> Iterator[bytes]:
        yield b"begin"
        raise OSError("the source fails")

    with pytest.raises(OSError, match="the source fails"):
        storage.put("topic/a.log", parts())
    assert listed(storage, "topic/") == {}
    with pytest.raises(FileNotFoundError):
        storage.read("topic/a.log", 0, 1)


@pytest.mark.parametrize("suffix", [".log", ".index", ".manifest"])
def test_a_deletion_includes_the_part_that_a_crash_left(tmp_path: Path, suffix: str) -> None:
    store, topic_id = CheckedStore(opened(f"directory:{tmp_path}")), UUID(int=5)
    name = SegmentName(0, 10, 3, "a" * 32)
    prefix = object_names.partition_prefix(topic_id, 0)
    for written in (".log", ".index"):
        if (written, suffix) == (".log", ".index") or suffix == ".manifest":
            store.put(f"{prefix}{name}{written}", [b"whole"])
    directory = tmp_path / prefix
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}{suffix}.tmp").write_bytes(b"beg")
    found = contents.load(store, topic_id, 0, {})
    assert (found.segments, found.unfinished) == ((), {name})
    deletion.sweep(store, topic_id, 0, found, 3, 0)
    assert [path.name for path in directory.iterdir()] == [f"{name}.deleted"]
    (directory / f"{name}{suffix}.tmp").write_bytes(b"beg")
    deletion.delete_partition(store, topic_id, 0, lambda: None)
    assert not directory.exists()


def test_a_directory_that_is_not_mounted_is_no_empty_store(tmp_path: Path) -> None:
    storage = opened(f"directory:{tmp_path}/mnt")
    for call in (lambda: list(storage.list("topic/")), lambda: storage.put("topic/a", [b""])):
        with pytest.raises(OSError, match="mnt"):
            call()
    assert not (tmp_path / "mnt").exists()


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "topic/../../a", "topic//a", ""])
def test_no_file_outside_of_the_directory_is_touched(tmp_path: Path, name: str) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "a").write_text("outside")
    storage = opened(f"directory:{tmp_path}/store")
    for call in (storage.delete, lambda name: storage.put(name, [b"x"])):
        with pytest.raises(ValueError, match="is no name of an object"):
            call(name)
    assert (tmp_path / "a").read_text() == "outside"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty; expected a name and a place"),
        ("tape:/dev/tape", "'tape' is not accepted; expected any of directory, s3"),
        ("directory:relative", "expected the absolute path of a directory"),
        ("s3:bucket", "expected a bucket and a prefix after the colon"),
        ("s3://key:abc@bucket/prefix", "expected a bucket and a prefix after the colon"),
        ("s3://bucket/prefix?colour=red", "colour is no option; expected any of region"),
        ("s3://bucket/prefix?secret_key=abc", "is no option; expected any of region"),
    ],
)
def test_a_wrong_setting_is_rejected_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        opened(text)
    assert why in str(caught.value)
    assert "abc" not in str(caught.value)


def test_a_bucket_that_does_not_exist_is_an_error(bucket: str) -> None:
    storage = opened(bucket.replace("s3://bucket", "s3://other"))
    with pytest.raises(OSError, match="other"):
        storage.put("topic/a", [b"x"])


def test_no_storage_is_made_where_it_is_not_enabled() -> None:
    assert remote_storage(BrokerConfig({"remote.log.storage": "directory:/nowhere"})) is None
