"""MySQL and MariaDB: their catalog, and their types as connectors write them."""
