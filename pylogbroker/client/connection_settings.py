"""Settings of a client's connections, with the plugin that provides its tokens.

Only with one, plugins are looked for, and Twisted is imported: Spark's part does without it. SASL is imported only
for clients that use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylogbroker.config import Values
from pylogbroker.config.listeners import PROTOCOLS
from pylogbroker.features import on_first_use
from pylogbroker.rpc.security import security_protocol
from pylogbroker.rpc.settings import ConnectionSettings

if TYPE_CHECKING:
    from pylogbroker.client import plugin_lookup
    from pylogbroker.security.sasl import token_choice
else:
    plugin_lookup = on_first_use("pylogbroker.client.plugin_lookup")
    token_choice = on_first_use("pylogbroker.security.sasl.token_choice")


def connection_settings(settings: Values) -> ConnectionSettings:
    """Return the settings of connections; raise ConfigError. Reads files of TLS."""
    if not PROTOCOLS[security_protocol(settings)].has_sasl:
        return ConnectionSettings.of(settings)
    chosen = token_choice.choose_provider(settings)
    if chosen is None:
        return ConnectionSettings.of(settings)
    resolved = plugin_lookup.resolve_plugin(
        plugin_lookup.TOKEN_PROVIDER, chosen.setting, chosen.plugin, {**settings.by_name(), **chosen.added}
    )
    return ConnectionSettings.of(settings, resolved.plugin)
