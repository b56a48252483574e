package cdc_assets.decode.canal;

/**
 * One entry of a packet, as a flat message.
 *
 * <p>https://github.com/alibaba/canal (``EntryProtocol.proto``; ``MQMessageUtils.messageConverter``
 * for what is made of it)
 */
final class Entry {
    private static final int ROWDATA = 2, LAST_ENTRY_TYPE = 5;
    private static final int INSERT = 1, UPDATE = 2, DELETE = 3;
    private static final String[] EVENTS = {
        "", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "ERASE", "QUERY", "TRUNCATE", "RENAME",
        "CINDEX", "DINDEX", "GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT",
    };

    private long type;
    private Text database = Text.EMPTY, table = Text.EMPTY;
    private long executed;
    private Fields stored = new Fields(new byte[0], 0, 0);
    private long event;
    private boolean isDdl;
    private Rows rows;

    /** Reads all but what is stored. */
    static Entry of(Fields fields) throws Malformed {
        Entry entry = new Entry();
        while (fields.next()) {
            switch (fields.number) {
                case 1 -> entry.readHeader(fields.message());
                case 2 -> entry.type = fields.number();
                case 3 -> entry.stored = fields.message();
                default -> { }
            }
        }
        return entry;
    }

    private void readHeader(Fields fields) throws Malformed {
        while (fields.next()) {
            switch (fields.number) {
                case 6 -> executed = fields.number();
                case 8 -> database = fields.text();
                case 9 -> table = fields.text();
                default -> { }
            }
        }
        database.check();
        table.check();
    }

    /** False if it begins or ends a transaction, or is a sign of life: nothing that changes rows. */
    boolean hasMessage() throws Malformed {
        if (type < 1 || type > LAST_ENTRY_TYPE) {
            throw new Malformed("an entry of a type that is not known");
        }
        return type == ROWDATA;
    }

    /** How many rows the message has. */
    int rows() {
        return rows == null ? 0 : rows.count;
    }

    /** The flat message; of an entry that cannot be read, why. */
    Json message() {
        try {
            read();
            return written();
        } catch (Malformed error) {
            rows = null;
            return refused(error);
        }
    }

    private void read() throws Malformed {
        // The event comes before the rows, as fields are written by their numbers.
        while (stored.next()) {
            switch (stored.number) {
                case 2 -> event = stored.number();
                case 10 -> isDdl = stored.flag();
                case 12 -> addRow(stored.inner());
                default -> { }
            }
        }
    }

    private void addRow(Fields row) throws Malformed {
        if (event < INSERT || event > DELETE) {
            throw new Malformed("an entry has rows, but does not say before them what became of them");
        }
        if (rows == null) {
            rows = new Rows(event == DELETE);
        }
        rows.add(row);
    }

    private Json written() throws Malformed {
        Json json = begun().raw(",\"type\":\"" + eventName() + "\"");
        json.raw(",\"isDdl\":" + isDdl + ",\"es\":" + executed);
        if (rows != null) {
            rows.writeTo(json);
        }
        return json.raw("}");
    }

    private String eventName() {
        boolean isKnown = event > 0 && event < EVENTS.length;
        return isKnown ? EVENTS[(int) event] : "not known";
    }

    private Json refused(Malformed error) {
        try {
            return begun().raw(",\"reject\":\"" + error.getMessage() + "\"}");
        } catch (Malformed cannot) {
            throw new IllegalStateException(cannot.getMessage());
        }
    }

    private Json begun() throws Malformed {
        Json json = new Json().raw("{\"database\":").text(database);
        return json.raw(",\"table\":").text(table);
    }
}
