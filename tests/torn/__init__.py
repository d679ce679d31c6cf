"""Damaged data directories: the broker starts, keeps what precedes the damage, logs it, and serves nothing damaged.

undamaged             data directories before the damage, and the expected result of a start on a damaged copy
test_segment_damage   segments: cut at every byte, every byte flipped, blocks of zeros and noise
test_other_files      every other file: missing, empty, damaged, stale
test_process          some of both, with a broker process that real clients wrote to and read from
"""
