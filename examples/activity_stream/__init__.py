"""A web server's log as an activity stream: produced, counted as a stream, loaded into files, and shown.

lines      parse a log's lines
broker     a broker for the run
producing  lines into a topic
counting   two structured streams: page views and visits
files      topics into Parquet files
report     a page with figures and plots
__main__   the whole pipeline
"""
