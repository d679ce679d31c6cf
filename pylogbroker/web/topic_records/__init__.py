"""The page with the records of a topic: all partitions merged by time, searched, one opened beside the list.

query        the parameters of an address, and addresses with others
json_tree    JSON as a tree made of slices of its own text
"""
