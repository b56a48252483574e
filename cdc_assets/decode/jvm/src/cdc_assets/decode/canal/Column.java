package cdc_assets.decode.canal;

/** One value of a row, with what Canal says of its column. */
record Column(
        Text name, Text value, Text type, int sqlType, boolean isKey, boolean updated, boolean isNull) {

    static Column of(Fields fields) throws Malformed {
        Text name = Text.EMPTY, value = Text.EMPTY, type = Text.EMPTY;
        int sqlType = 0;
        boolean isKey = false, updated = false, isNull = false;
        while (fields.next()) {
            switch (fields.number) {
                case 2 -> sqlType = (int) fields.number();
                case 3 -> name = fields.text();
                case 4 -> isKey = fields.flag();
                case 5 -> updated = fields.flag();
                case 6 -> isNull = fields.flag();
                case 8 -> value = fields.text();
                case 10 -> type = fields.text();
                default -> { }
            }
        }
        if (name.isEmpty()) {
            throw new Malformed("a column has no name");
        }
        return new Column(name, value, type, sqlType, isKey, updated, isNull);
    }

    /** Whether a row after a change holds the same as this one before it. */
    boolean isKept(Column after) {
        return !after.updated && isNull == after.isNull && (isNull || value.is(after.value));
    }

    void writeValue(Json json) throws Malformed {
        json.text(name).raw(":");
        if (isNull) {
            json.raw("null");
        } else {
            json.text(value);
        }
    }
}
