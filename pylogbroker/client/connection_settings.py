"""Settings of a client's connections, with the plugin that provides its tokens.

Only with one, plugins are looked for, and Twisted is imported: Spark's part does without it.
"""

from __future__ import annotations

from pylogbroker.config import Values
from pylogbroker.rpc.settings import ConnectionSettings
from pylogbroker.security.sasl.token_choice import choose_provider


def connection_settings(settings: Values) -> ConnectionSettings:
    """Return the settings of connections; raise ConfigError. Reads files of TLS."""
    chosen = choose_provider(settings)
    if chosen is None:
        return ConnectionSettings.of(settings)
    from pylogbroker.client.plugin_lookup import TOKEN_PROVIDER, resolve_plugin

    found = resolve_plugin(TOKEN_PROVIDER, chosen.setting, chosen.plugin, {**settings.by_name(), **chosen.added})
    return ConnectionSettings.of(settings, found.plugin)
