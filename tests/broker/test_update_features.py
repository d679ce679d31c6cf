"""Levels of features: changes and what is wrong with them, beside Kafka 4.4's answers; restarts and validation."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from pylogbroker.broker.apis import api_versions, update_features
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.interfaces import SetData, Unavailable
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.feature_levels import SUPPORTED_LEVELS, LevelChange, LevelRange, changed, initial_levels
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest
from pylogbroker.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.nodes import NodeTests
from tests.broker.trees import now

UPGRADE, SAFE, UNSAFE = 1, 2, 3
NO_DOWNGRADE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
)


@pytest.fixture(autouse=True)
def lights() -> Iterator[None]:
    """A feature of two levels besides metadata.version, and no other."""
    levels = {"metadata.version": SUPPORTED_LEVELS["metadata.version"], "lights": LevelRange(0, 2)}
    with patch.dict(SUPPORTED_LEVELS, levels, clear=True):
        yield


@pytest.mark.parametrize(
    ("name", "level", "kind", "problem"),
    [
        ("nothing", 1, UPGRADE, "Invalid update version 1 for feature nothing."),
        ("lights", 9, UPGRADE, "Invalid update version 9 for feature lights. This broker only supports versions 0-2"),
        ("lights", 0, UPGRADE, f"Invalid update version 0 for feature lights. {NO_DOWNGRADE}"),
        ("lights", -1, SAFE, "Invalid update version -1 for feature lights. A feature version cannot be less than 0."),
        ("lights", 2, 7, "The controller does not support the given upgrade type."),
        ("metadata.version", 30, SAFE, "Unsupported metadata.version downgrade from 33 to 30."),
        ("metadata.version", 32, UNSAFE, "Unsupported metadata.version downgrade from 33 to 32."),
        ("metadata.version", 34, UPGRADE, "only supports versions 7-33"),
    ],
)
def test_changes_that_are_rejected(name: str, level: int, kind: int, problem: str) -> None:
    allowed, rejected = LevelChange("lights", 2), LevelChange(name, level, kind)
    with pytest.raises(KafkaError, match=r"The update failed for all features since .*had an error: ") as raised:
        changed({"metadata.version": 33, "lights": 1}, [allowed, rejected])
    assert raised.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert problem in raised.value.detail


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_a_feature_is_switched_off_by_level_0(kind: int) -> None:
    assert changed({"lights": 2}, [LevelChange("lights", 0, kind)]) == {}
    assert changed({}, [LevelChange("lights", 2)]) == {"lights": 2}


def test_a_new_cluster_begins_with_the_levels_that_are_given() -> None:
    newest = {"metadata.version": 33, "lights": 2}
    assert initial_levels() == newest
    assert initial_levels(["lights=1"]) == newest | {"lights": 1}
    assert initial_levels([" lights = 0", "metadata.version=20"]) == {"metadata.version": 20}
    with pytest.raises(ConfigError, match="lights has two levels; remove one of them"):
        initial_levels(["lights=1", "lights=1"])


@pytest.mark.parametrize("text", ["nothing=1", "lights", "lights=", "lights=3", "lights=-1", "metadata.version=6"])
def test_levels_that_no_cluster_can_begin_with(text: str) -> None:
    expected = "is not accepted; expected some of metadata.version=7 to 33, lights=0 to 2"
    with pytest.raises(ConfigError, match=f"initial.features: '{text}' {expected}"):
        initial_levels([text])


class UpdateFeaturesTests(NodeTests):
    def change(self, *updates: tuple[str, int, int], version: int = 2, only: bool = False) -> ErrorCode:
        keys = [FeatureUpdateKey(name, level, upgrade_type=kind) for name, level, kind in updates]
        request = UpdateFeaturesRequest(feature_updates=keys, validate_only=only)
        answer = self.node.ask(update_features.handle, request, version)
        if not answer.error_code:
            results = [(result.feature, result.error_code, result.error_message) for result in answer.results]
            self.assertEqual(results, [(name, 0, "NONE") for name, _, _ in updates] if version < 2 else [])
        return ErrorCode(answer.error_code)

    def levels(self) -> tuple[int, dict[str, int]]:
        answer = self.node.ask(api_versions.handle, ApiVersionsRequest("a", "1"), 4)
        return answer.finalized_features_epoch, {key.name: key.max_version_level for key in answer.finalized_features}

    def test_levels_are_kept_with_an_epoch_that_counts_changes(self) -> None:
        self.assertEqual(self.levels(), (0, {"metadata.version": 33, "lights": 2}))
        self.assertEqual(self.change(("lights", 1, SAFE), version=1), 0)
        self.assertEqual(self.levels(), (1, {"metadata.version": 33, "lights": 1}))
        self.assertEqual(self.change(("lights", 0, SAFE)), 0)
        self.assertEqual(self.levels(), (2, {"metadata.version": 33}))
        self.restart()
        self.assertEqual(self.levels(), (2, {"metadata.version": 33}))
        self.assertEqual(self.node.broker.features.level("lights"), 0)

    def test_nothing_changes_by_a_validation_or_the_same_levels_or_an_error(self) -> None:
        self.assertEqual(self.change(("lights", 1, SAFE), only=True), 0)
        self.assertEqual(self.change(("lights", 2, UPGRADE)), 0)
        self.assertEqual(self.change(("lights", 1, SAFE), ("nothing", 1, UPGRADE)), 95)
        self.assertEqual(self.change(("lights", 0, UPGRADE), version=1), 95)
        self.assertEqual(self.levels(), (0, {"metadata.version": 33, "lights": 2}))

    def test_changes_of_another_broker_are_followed(self) -> None:
        for epoch, level in ((1, 1), (2, 2)):
            features = zk_schema.FeaturesNode(True, 2, {"metadata.version": 33, "lights": level})
            write = SetData(zk_paths.FEATURES, zk_schema.encode_features(features), epoch - 1)
            now(self.node.tree.commit([write]))
            self.node.clock.advance(0)
            self.assertEqual(self.levels(), (epoch, {"metadata.version": 33, "lights": level}))

    def test_changes_are_followed_through_errors_of_the_tree(self) -> None:
        """A watch is called once: a change would be missed for ever if none were set after an error."""
        tree = type(self.node.tree)
        for epoch, level in ((1, 1), (2, 2)):
            features = zk_schema.FeaturesNode(True, 2, {"metadata.version": 33, "lights": level})
            with patch.object(tree, "exists", side_effect=Unavailable(zk_paths.FEATURES)):
                now(self.node.tree.commit([SetData(zk_paths.FEATURES, zk_schema.encode_features(features), epoch - 1)]))
                for _ in range(3):
                    self.node.clock.advance(1)
            self.assertEqual(self.levels()[0], epoch - 1)
            self.node.clock.advance(1)
            self.assertEqual(self.levels(), (epoch, {"metadata.version": 33, "lights": level}))

    def test_version_0_says_whether_a_downgrade_is_allowed(self) -> None:
        for is_allowed, error in ((False, 95), (True, 0)):
            keys = [FeatureUpdateKey("lights", 1, allow_downgrade=is_allowed)]
            answer = self.node.ask(update_features.handle, UpdateFeaturesRequest(feature_updates=keys), 0)
            self.assertEqual(answer.error_code, error)
