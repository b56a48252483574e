"""PostgreSQL: its catalog, and its types as connectors write them."""
