"""Token providers: where a client's tokens of OAUTHBEARER come from."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from zope.interface import Interface

from pylogbroker.interfaces.factories import IPluginFactory


@attrs.frozen
class BearerToken:
    """Token, usually a JWT, and SASL extensions, whose names are letters (RFC 7628, KIP-342)."""

    value: str = attrs.field(repr=False)
    extensions: Mapping[str, str] = attrs.field(factory=dict)


class ITokenProvider(Interface):
    """Provider of one client's tokens."""

    def token() -> BearerToken:
        """Return a token that is valid for now.

        Called in a thread, for each authentication of a connection; calls may be concurrent. May block, for less than
        `socket.connection.setup.timeout.ms`. An exception ends the attempt to connect; its text is shown.
        """


class ITokenProviderFactory(IPluginFactory):
    """Plugin factory of token providers; see `sasl.oauthbearer.token.provider`."""
