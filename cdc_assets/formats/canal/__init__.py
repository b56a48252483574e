"""Reads Canal's messages, and TiCDC's in Canal's form: rows as text, several in a message."""
