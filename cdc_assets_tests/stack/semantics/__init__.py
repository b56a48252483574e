"""What PostgreSQL and Debezium really send, merged, against the database row by row.

The tables are in `semantics_schema`. Rows that they have there are read by the connector's
snapshot; everything else is streamed. All modules share them, in the order of their names:
`test_keys` comes before those that fill ``by_default`` and clear ``by_nothing``.
"""
