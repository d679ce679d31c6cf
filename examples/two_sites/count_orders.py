"""Counts the orders of each site by Spark, from the offline cluster: `python count_orders.py [HOST:PORT]`."""

import sys

from pyspark.sql import DataFrame, SparkSession


def count_orders(spark: SparkSession, bootstrap: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribePattern": r".*\.orders"}
    orders = spark.read.format("pylogbroker").options(**options).load()
    return orders.groupBy("topic").count().orderBy("topic")


if __name__ == "__main__":
    count_orders(SparkSession.builder.getOrCreate(), (*sys.argv, "127.0.0.1:9094")[1]).show()
