"""Crash tests: a broker is killed again and again while clients work; checks compare its logs with their answers.

run            the loop: kill, start again, check
killed_broker  the broker
kill_moments   moments of the kills
workloads      clients that work meanwhile
stamps         content of records
history        answers that clients got
reader         fetches all logs and offsets by itself
content        content of the logs, start after start
log_checker    runs the checks after each start
checks         violations
"""
