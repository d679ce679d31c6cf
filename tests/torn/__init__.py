"""Data directories that are damaged in every way: the broker starts, keeps what lies before, tells, serves nothing bad.

originals      data directories as they are before the damage, and what a start on a damaged copy must come to
test_entries   the files of entries: cut at every byte, every byte flipped, blocks of zeros and noise
test_others    every other file: missing, empty, damaged, stale
test_process   some of both, with a broker process that real clients wrote to and read from
"""
