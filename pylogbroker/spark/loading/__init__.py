"""The loader: topics into Parquet files.

load                    what users call
running, accounts       one load: from the manifest that there is to the one that there is then
planning, intervals     which offsets are to be loaded
spreading, filling      the tasks, and what one does
mapping, parquet        from rows to files
manifest, store         which files count, and where they are
progress, times         what is told meanwhile, and what users say
"""
