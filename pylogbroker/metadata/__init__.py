"""Metadata of the cluster: immutable images, the deltas between them, and their nodes in the coordination tree.

| module                        | content                                                                        |
|-------------------------------|--------------------------------------------------------------------------------|
| `image`, `delta`              | brokers, topics, partitions and settings as values; changes between two images |
| `persistent_map`              | mapping whose changed copies share its structure                               |
| `placement`, `topic_names`    | which brokers get which partitions; rules of names and ids                     |
| `zk_schema`, `zk_paths`       | Kafka's nodes in ZooKeeper: values and paths                                   |
| `zk_image`                    | reads an image from the tree; writes a delta as operations on the tree         |
| `registration`                | ids of cluster, brokers and log directories                                    |

Nothing here knows Twisted, logs or requests.
"""
