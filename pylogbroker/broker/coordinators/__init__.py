"""The group and the transaction coordinator in their broker."""
