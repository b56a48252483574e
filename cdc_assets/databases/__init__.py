"""Source databases: what their catalogs and types say, one folder each."""
