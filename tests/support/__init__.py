"""Support of several test packages: processes, brokers, fixtures, plugins of pytest."""
