"""Archives: records of segments as Parquet files, written before the segments are deleted, and read with the log.

layout      names of files: topic, topic id, partition, offsets
segments    records of a segment's file, and batches that cannot be decoded
writer      a job: segments of one partition to files, each once
__main__    the process that the delete policy `archive-parquet` starts for a job
source      reads across archive and log
"""
