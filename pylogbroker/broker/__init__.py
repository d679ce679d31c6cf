"""One node of a cluster: its topics and partitions, and the handlers of requests.

`assembly` connects the services. `controller` decides changes of the metadata; `cluster_metadata` holds the current
image.
"""
