"""The plugins that are installed, as the settings call them."""

from __future__ import annotations

from collections import defaultdict

from twisted.logger import Logger
from twisted.plugin import getPlugins

from pylogbroker import plugins
from pylogbroker.broker.delete_policies import DeletePolicies
from pylogbroker.interfaces import IDeletePolicyFactory

log = Logger()


def delete_policies() -> DeletePolicies:
    """All delete policies. Where two plugins claim a name, neither gets it: nobody knows which one was meant."""
    found: defaultdict[str, list[IDeletePolicyFactory]] = defaultdict(list)
    for plugin in getPlugins(IDeletePolicyFactory, plugins):
        name = getattr(plugin, "name", None)
        if isinstance(name, str):
            found[name].append(plugin)
        else:
            log.error("a delete policy without a name cannot be chosen: {plugin}", plugin=plugin)
    for name, several in found.items():
        if len(several) > 1:
            log.error("two plugins claim to be the delete policy {name}: {plugins}", name=name, plugins=several)
    return DeletePolicies({name: alone for name, [alone, *others] in found.items() if not others})
