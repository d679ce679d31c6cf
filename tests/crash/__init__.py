"""A broker that is killed again and again while clients work, and a judge who compares what they were told.

run         the loop: kill, start again, judge
victim      the broker
moments     when it is killed
workloads   what goes on meanwhile
stamps      what a record carries
history     what clients were told
reader      fetches all logs and offsets, on its own
content     what the logs hold, start after start
judge       brings the three together
checks      what must not be
"""
