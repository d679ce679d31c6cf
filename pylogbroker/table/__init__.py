"""Topics as Arrow tables.

decoder, headers, spans     record batches to Arrow
"""
