"""Takes over an Iceberg table that another tool made, and keeps its files."""
