"""The distribution that users install."""
