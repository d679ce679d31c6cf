"""The plugins that are installed, as the settings call them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from twisted.logger import Logger
from twisted.plugin import getCache

from pylogbroker import plugins
from pylogbroker.broker.delete_policies import DeletePolicies
from pylogbroker.interfaces import IDeletePolicyFactory
from pylogbroker.plugins import delete_policies as built_in

_NAME: Final = re.compile(r"[a-z0-9-]+")
log = Logger()


def delete_policies() -> DeletePolicies:
    """All delete policies. Where two plugins claim a name, neither gets it: nobody knows which one was meant."""
    found: defaultdict[str, dict[str, IDeletePolicyFactory]] = defaultdict(dict)
    for place, factory in _factories():
        name: object = getattr(factory, "name", None)
        if isinstance(name, str) and _NAME.fullmatch(name):
            found[name][place] = factory
        else:
            log.error(
                "the delete policy {place} is left out: its name, {name!r}, must be made of a-z, 0-9 and -",
                place=place,
                name=name,
            )
    return DeletePolicies(
        {name: chosen for name, claims in found.items() if (chosen := _chosen(name, claims)) is not None}
    )


def _chosen(name: str, claims: dict[str, IDeletePolicyFactory]) -> IDeletePolicyFactory | None:
    ours = [place for place in claims if place.startswith(f"{built_in.__name__}.")]
    others = ", ".join(place for place in claims if place not in ours)
    if ours and others:
        log.error("{name} is a built-in delete policy; left out are {others}", name=name, others=others)
    if not ours and len(claims) > 1:
        log.error("two plugins claim to be the delete policy {name}: {others}", name=name, others=others)
        return None
    return claims[ours[0]] if ours else next(iter(claims.values()))


def _factories() -> Iterator[tuple[str, IDeletePolicyFactory]]:
    """What `twisted.plugin` finds, and where.

    It tells of a new module that cannot be loaded. One that could be the last time is told of here, once for all that
    it has.
    """
    for module in getCache(plugins).values():
        try:
            found = [(each.name, IDeletePolicyFactory(each, None)) for each in module.plugins]
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            log.error("the plugins in {module} are left out: {why!r}", module=module.moduleName, why=error)
        else:
            yield from ((f"{module.moduleName}.{name}", factory) for name, factory in found if factory is not None)
