"""Loader: topics into Parquet files.

load                    public functions
job, commit             one load: plan, tasks, manifest
planner, intervals      offsets to load
scheduler, task         Spark tasks
mapping, parquet        rows to files
manifest, store         valid files; access to the directory
progress, times         progress reports; points in time
"""
