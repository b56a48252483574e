"""Reads Maxwell's messages: one row of MySQL or MariaDB each, typed by JSON alone."""
