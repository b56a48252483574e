"""Maxwell's messages: a row of MySQL or MariaDB in each, typed by JSON alone."""
