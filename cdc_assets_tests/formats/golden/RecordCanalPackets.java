import com.alibaba.otter.canal.protocol.CanalEntry.Column;
import com.alibaba.otter.canal.protocol.CanalEntry.Entry;
import com.alibaba.otter.canal.protocol.CanalEntry.EntryType;
import com.alibaba.otter.canal.protocol.CanalEntry.EventType;
import com.alibaba.otter.canal.protocol.CanalEntry.Header;
import com.alibaba.otter.canal.protocol.CanalEntry.Pair;
import com.alibaba.otter.canal.protocol.CanalEntry.RowChange;
import com.alibaba.otter.canal.protocol.CanalEntry.RowData;
import com.alibaba.otter.canal.protocol.CanalEntry.TransactionBegin;
import com.alibaba.otter.canal.protocol.CanalEntry.TransactionEnd;
import com.alibaba.otter.canal.protocol.CanalEntry.Type;
import com.alibaba.otter.canal.protocol.CanalPacket.Ack;
import com.alibaba.otter.canal.protocol.CanalPacket.Compression;
import com.alibaba.otter.canal.protocol.CanalPacket.Messages;
import com.alibaba.otter.canal.protocol.CanalPacket.Packet;
import com.alibaba.otter.canal.protocol.CanalPacket.PacketType;
import com.google.protobuf.ByteString;
import java.sql.Types;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Prints the packets of ``canal_packets.json``, made by Canal's own classes: each field that its
 * parser sets (``LogEventConvert``) is set, and packets are put together as its producer does
 * (``CanalMessageSerializerUtil``).
 *
 * <p>Needs com.alibaba.otter:canal.protocol:1.1.8 and com.google.protobuf:protobuf-java:3.6.1:
 * java -cp canal.protocol-1.1.8.jar:protobuf-java-3.6.1.jar RecordCanalPackets.java
 */
class RecordCanalPackets {
    static final long WHEN = 1_760_000_000_000L;
    static final String[][] ITEMS = {
        {"id", "bigint(20) unsigned", "key"}, {"name", "varchar(20)", ""},
        {"data", "varbinary(8)", ""}, {"kind", "enum('a','b')", ""}, {"at", "datetime(3)", ""},
    };
    static final String[][] WIDER = {
        {"id", "bigint(20) unsigned", "key"}, {"name", "varchar(20)", ""},
        {"data", "varbinary(8)", ""}, {"kind", "enum('a','b')", ""}, {"at", "datetime(3)", ""},
        {"price", "decimal(10,2)", ""},
    };
    static final String[][] NOTES = {{"id", "int(11)", "key"}, {"text", "text", ""}};

    public static void main(String[] given) {
        String[] one = {"18446744073709551615", "eins \"1\" \\ 😀", "\u0000ÿ", "1", "2026-01-31 12:00:00.125"};
        String[] two = {"2", "", null, null, null};
        String[] moved = {"3", "", null, "2", null};
        String[] wide = {"4", "vier", null, "0", null, "12.50"};
        Map<String, byte[]> packets = new LinkedHashMap<>();
        packets.put("a transaction of two tables", of(begin(),
            rows("t", EventType.INSERT, row(null, columns(ITEMS, one, null)), row(null, columns(ITEMS, two, null))),
            rows("notes", EventType.INSERT, row(null, columns(NOTES, new String[] {"1", "n"}, null))),
            end()));
        packets.put("an update that changes the key, and a delete", of(
            rows("t", EventType.UPDATE, row(columns(ITEMS, two, null), columns(ITEMS, moved, two))),
            rows("t", EventType.DELETE, row(columns(ITEMS, one, null), null))));
        packets.put("a column is added between two statements", of(begin(),
            rows("t", EventType.INSERT, row(null, columns(ITEMS, one, null))),
            end(),
            statement("t", EventType.ALTER, true, "ALTER TABLE t ADD price DECIMAL(10,2)"),
            begin(),
            rows("t", EventType.INSERT, row(null, columns(WIDER, wide, null))),
            end()));
        packets.put("marks of a transaction alone", of(begin(), end()));
        packets.put("what is left of that with canal.instance.filter.transaction.entry", of());
        packets.put("truncates, the text of a statement, the end of a prepared transaction", of(
            statement("notes", EventType.TRUNCATE, true, "TRUNCATE notes"),
            statement("", EventType.QUERY, false, "INSERT INTO t VALUES (5)"),
            statement("", EventType.XACOMMIT, false, "XA COMMIT 'x'"),
            statement("t", EventType.TRUNCATE, true, "TRUNCATE t")));
        packets.put("a statement whose rows are not logged", of(
            statement("t", EventType.INSERT, false, "INSERT INTO t VALUES (5)")));
        packets.put("a prepared transaction is rolled back", of(
            statement("", EventType.XAROLLBACK, false, "XA ROLLBACK 'x'")));
        packets.put("without a version, as from raw entries", raw(
            rows("t", EventType.INSERT, row(null, columns(ITEMS, two, null)))));
        packets.put("a compressed body", Packet.newBuilder().setType(PacketType.MESSAGES)
            .setCompression(Compression.GZIP).setBody(ByteString.copyFromUtf8("...")).build().toByteArray());
        packets.put("an answer of Canal's server", Packet.newBuilder().setType(PacketType.ACK)
            .setBody(Ack.newBuilder().setErrorCode(400).setErrorMessage("no").build().toByteString())
            .build().toByteArray());
        System.out.println("{");
        String separator = "";
        for (Map.Entry<String, byte[]> each : packets.entrySet()) {
            String hex = HexFormat.of().formatHex(each.getValue());
            System.out.print(separator + "  \"" + each.getKey() + "\": \"" + hex + "\"");
            separator = ",\n";
        }
        System.out.println("\n}");
    }

    static byte[] of(Entry... entries) {
        return packet(entries).setVersion(1).build().toByteArray();
    }

    static byte[] raw(Entry... entries) {
        return packet(entries).build().toByteArray();
    }

    static Packet.Builder packet(Entry... entries) {
        Messages.Builder messages = Messages.newBuilder().setBatchId(17);
        for (Entry entry : entries) {
            messages.addMessages(entry.toByteString());
        }
        return Packet.newBuilder().setType(PacketType.MESSAGES).setBody(messages.build().toByteString());
    }

    static Entry begin() {
        return entry(header("", "", null), EntryType.TRANSACTIONBEGIN,
            TransactionBegin.newBuilder().setThreadId(42).build().toByteString());
    }

    static Entry end() {
        return entry(header("", "", null), EntryType.TRANSACTIONEND,
            TransactionEnd.newBuilder().setTransactionId("4711").build().toByteString());
    }

    static Entry statement(String table, EventType event, boolean isDdl, String sql) {
        RowChange.Builder change = RowChange.newBuilder().setEventType(event).setSql(sql);
        if (isDdl) {
            change.setIsDdl(true).setDdlSchemaName("public");
        }
        String schema = table.isEmpty() ? "" : "public";
        return entry(header(schema, table, event), EntryType.ROWDATA, change.build().toByteString());
    }

    static Entry rows(String table, EventType event, RowData... rows) {
        RowChange.Builder change = RowChange.newBuilder().setTableId(99).setIsDdl(false).setEventType(event);
        for (RowData row : rows) {
            change.addRowDatas(row);
        }
        return entry(header("public", table, event), EntryType.ROWDATA, change.build().toByteString());
    }

    static RowData row(Iterable<Column> before, Iterable<Column> after) {
        RowData.Builder row = RowData.newBuilder();
        if (before != null) {
            row.addAllBeforeColumns(before);
        }
        if (after != null) {
            row.addAllAfterColumns(after);
        }
        return row.build();
    }

    /** As ``LogEventConvert.parseOneRow`` sets them. */
    static Iterable<Column> columns(String[][] table, String[] values, String[] before) {
        java.util.List<Column> found = new java.util.ArrayList<>();
        for (int i = 0; i < table.length; i++) {
            Column.Builder column = Column.newBuilder().setIndex(i).setName(table[i][0])
                .setMysqlType(table[i][1]).setIsKey(table[i][2].equals("key"))
                .setIsNull(values[i] == null).setSqlType(Types.VARCHAR)
                .setUpdated(before != null && !java.util.Objects.equals(before[i], values[i]));
            if (values[i] != null) {
                column.setValue(values[i]);
            }
            found.add(column.build());
        }
        return found;
    }

    static Header header(String schema, String table, EventType event) {
        Header.Builder header = Header.newBuilder().setVersion(1).setLogfileName("mysql-bin.000007")
            .setLogfileOffset(4_294_967_300L).setServerId(1).setServerenCode("UTF-8").setExecuteTime(WHEN)
            .setSourceType(Type.MYSQL).setSchemaName(schema).setTableName(table).setEventLength(120)
            .setGtid("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5")
            .addProps(Pair.newBuilder().setKey("curtGtid").setValue("3e11fa47:5"));
        if (event != null) {
            header.setEventType(event);
        }
        return header.build();
    }

    static Entry entry(Header header, EntryType type, ByteString stored) {
        return Entry.newBuilder().setHeader(header).setEntryType(type).setStoreValue(stored).build();
    }
}
