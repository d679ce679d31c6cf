"""Settings of a client's connections, with the plugin that provides its tokens.

Only with one, plugins are looked for, and Twisted is imported: Spark's part does without it. SASL is imported only
for clients that use it.
"""

from __future__ import annotations

from pylogbroker.config import Values
from pylogbroker.config.listeners import PROTOCOLS
from pylogbroker.rpc.security import security_protocol
from pylogbroker.rpc.settings import ConnectionSettings


def connection_settings(settings: Values) -> ConnectionSettings:
    """Return the settings of connections; raise ConfigError. Reads files of TLS."""
    if not PROTOCOLS[security_protocol(settings)].has_sasl:
        return ConnectionSettings.of(settings)
    from pylogbroker.security.sasl.token_choice import choose_provider

    chosen = choose_provider(settings)
    if chosen is None:
        return ConnectionSettings.of(settings)
    from pylogbroker.client.plugin_lookup import TOKEN_PROVIDER, resolve_plugin

    resolved = resolve_plugin(TOKEN_PROVIDER, chosen.setting, chosen.plugin, {**settings.by_name(), **chosen.added})
    return ConnectionSettings.of(settings, resolved.plugin)
