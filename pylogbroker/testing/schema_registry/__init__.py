"""Schema registry for tests: Confluent's REST interface, kept in the topic `_schemas`.

`service` starts it, `site` answers by HTTP, and `registry` does what the requests ask for. `records` has the layout of
`_schemas`, `state` what the records make, and `values` the schemas. Each schema type has a parser with its rules.
"""
