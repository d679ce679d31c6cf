"""Replication policies: the names of mirrored topics."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from zope.interface import Interface

from pylogbroker.interfaces.factories import IPluginFactory


class IReplicationPolicy(Interface):
    """Names of topics in the target of a mirror.

    Clusters have aliases. Methods are called on the reactor thread and must not block. An exception stops the topic.
    """

    def target_topic(source: str, topic: str) -> str:
        """Return the name in the target for a topic of the cluster `source`."""

    def origin(topic: str) -> str | None:
        """Return the alias of the cluster that a topic is mirrored from; None if its name does not say that.

        A mirror leaves out topics that come from its own target.
        """

    def upstream_topic(topic: str) -> str | None:
        """Return the name of a mirrored topic in the cluster that it comes from; None if it is not a mirrored one.

        A policy that keeps names returns the name.
        """


class IReplicationPolicyFactory(IPluginFactory):
    """Plugin factory of replication policies, named by `replication.policy.class`."""
