"""Loader: topics into Parquet files.

load                    public functions
job, commit             one load: plan, tasks, manifest
planner, intervals      offsets to load
scheduler, task         Spark tasks, and the work of one
mapping, parquet        from rows to files
manifest, store         valid files, and access to the directory
progress, times         progress reports, and points in time
"""
