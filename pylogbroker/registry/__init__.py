"""Schema registry: Confluent's REST interface, kept in the topic `_schemas`.

`site` answers by HTTP, and `registry` does what the requests ask for. `records` has the layout of `_schemas`, and
`state` what the records make. Each schema type has a parser with its rules.
"""
