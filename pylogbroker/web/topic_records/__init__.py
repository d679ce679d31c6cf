"""The page with the records of a topic: all partitions merged by time, searched, one opened beside the list.

query        the parameters of an address, and addresses with others
json_tree    JSON as a tree made of slices of its own text
cells        what rows show of a record
fragments    HTML of rows, of a search's state, of the opened record: also what streams send
page         the page as a whole; without JavaScript it searches for a second at a time
opened       one record in full
state        the state of a search, in words
streams      what goes on: a search, and new records as they come
downloads    what was found as a file, and one value
"""
