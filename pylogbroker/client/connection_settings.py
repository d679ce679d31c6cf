"""Settings of a client's connections, with the plugin that provides its tokens.

Only with one, plugins are looked for, and Twisted is imported: Spark's part does without it.
"""

from __future__ import annotations

from pylogbroker.config import Values
from pylogbroker.rpc.settings import ConnectionSettings
from pylogbroker.security.sasl import credentials


def connection_settings(settings: Values) -> ConnectionSettings:
    """Return the settings of connections; raise ConfigError. Reads files of TLS."""
    name = settings.optional_text(credentials.TOKEN_PROVIDER)
    if not name:
        return ConnectionSettings.of(settings)
    from pylogbroker.client.plugin_lookup import TOKEN_PROVIDER, resolve_plugin

    found = resolve_plugin(TOKEN_PROVIDER, credentials.TOKEN_PROVIDER, name, settings.by_name())
    return ConnectionSettings.of(settings, found.plugin)
