"""Archives: records of segments as Parquet files, written before the segments are deleted, and read with the log.

layout      names of files: topic, topic id, partition, offsets
segments    records of a segment's file, and batches that cannot be decoded
jobs        jobs and their outcome, columns, and what a target is
directory   the target that is a directory of Parquet files
iceberg     the target that is a table of Iceberg
decoding    columns of decoded keys and values, and dead letters for those that do not decode
writer      does a job: segments of one partition to a target, each record once
__main__    the process that the delete policy `archive-parquet` starts for a job
archives    archives that are read, by what users name
parquet_archive, iceberg_archive    the archives: directories and object stores, tables of Iceberg
source      reads across archive and log
"""
