"""Pages of a topic: one head with its facts, and below it partitions, groups, settings, and forms.

Its records are in `pylogbroker.web.topic_records`. Each page is an address below /topics/NAME.
"""
