"""Keeps Apache Iceberg tables equal to the tables of operational databases."""
