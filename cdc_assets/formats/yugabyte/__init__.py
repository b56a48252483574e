"""YugabyteDB's change events: Debezium's envelope, each column a cell of value and set."""
