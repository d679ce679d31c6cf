"""Loader: topics into Parquet files.

load                    public functions
running, accounts       one load: plan, tasks, manifest
planning, intervals     offsets to load
spreading, filling      Spark tasks, and the work of one
mapping, parquet        from rows to files
manifest, store         valid files, and access to the directory
progress, times         progress reports, and points in time
"""
