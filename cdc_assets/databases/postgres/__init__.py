"""Reads PostgreSQL's catalog, and maps its types as connectors write them."""
