"""A web server's log as an activity stream: produced, counted while it streams, loaded into files, and shown.

lines      what a line of the log is, and its fields
broker     a broker for the run
producing  the log, line by line, into a topic
counting   two structured streams: views of pages, and visits of clients
report     a page with figures and plots
__main__   all of it
"""
