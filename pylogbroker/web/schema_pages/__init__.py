"""Pages of the schema registry of this broker: subjects, and the versions of one with what has changed."""
