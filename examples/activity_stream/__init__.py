"""A web server's log as an activity stream: produced, counted while it streams, loaded into files, and shown.

lines      a log's lines, and their fields
broker     a broker for the run
producing  lines into a topic
counting   two structured streams: views of pages, and visits of clients
files      all of it into Parquet files
report     a page with figures and plots
__main__   all of this
"""
