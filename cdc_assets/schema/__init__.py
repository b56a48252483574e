"""Table schemas, type mapping, evolution plans. Pure Python."""
