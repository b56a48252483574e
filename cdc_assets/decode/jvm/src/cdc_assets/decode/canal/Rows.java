package cdc_assets.decode.canal;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** The rows of one entry, as ``data`` and ``old`` of a flat message. */
final class Rows {
    private static final int BEFORE = 1, AFTER = 2;
    private static final int BLOB = java.sql.Types.BLOB;

    private final boolean isDelete;
    private final Json data = new Json();
    private final Json old = new Json();
    private List<Column> first;
    private int[] sqlTypes;
    private boolean hasOld;
    int count;

    Rows(boolean isDelete) {
        this.isDelete = isDelete;
    }

    void add(Fields fields) throws Malformed {
        List<Column> before = new ArrayList<>();
        List<Column> after = new ArrayList<>();
        while (fields.next()) {
            switch (fields.number) {
                case BEFORE -> before.add(Column.of(fields.inner()));
                case AFTER -> after.add(Column.of(fields.inner()));
                default -> { }
            }
        }
        List<Column> row = isDelete ? before : after;
        requireAlike(row);
        addTypes(row);
        String separator = count++ == 0 ? "" : ",";
        write(data.raw(separator), row);
        hasOld |= !isDelete && !before.isEmpty();
        write(old.raw(separator), isDelete ? List.of() : changed(before, after));
    }

    /** The columns and types of the first row are those of all. */
    private void requireAlike(List<Column> row) throws Malformed {
        if (first == null) {
            requireOnce(row);
            first = row;
            return;
        }
        boolean alike = row.size() == first.size();
        for (int i = 0; alike && i < row.size(); i++) {
            Column mine = row.get(i), other = first.get(i);
            alike = mine.name().is(other.name()) && mine.type().is(other.type())
                && mine.isKey() == other.isKey();
        }
        if (!alike) {
            throw new Malformed("rows of one entry have different columns");
        }
    }

    /** Of each column the type in the last row; but if a text was written as bytes in any, that. */
    private void addTypes(List<Column> row) {
        if (sqlTypes == null) {
            sqlTypes = new int[row.size()];
        }
        for (int i = 0; i < sqlTypes.length; i++) {
            sqlTypes[i] = sqlTypes[i] == BLOB ? BLOB : row.get(i).sqlType();
        }
    }

    private static void requireOnce(List<Column> row) throws Malformed {
        if (row.isEmpty()) {
            throw new Malformed("a row has no columns");
        }
        Set<String> names = new HashSet<>();
        for (Column each : row) {
            Text name = each.name();
            int length = name.stop() - name.start();
            String text = new String(name.bytes(), name.start(), length, StandardCharsets.ISO_8859_1);
            if (!names.add(text)) {
                throw new Malformed("a column is there twice");
            }
        }
    }

    /** Before an update: what is not the same after it, or not there. */
    private static List<Column> changed(List<Column> before, List<Column> after) throws Malformed {
        if (!before.isEmpty()) {
            requireOnce(before);
        }
        List<Column> found = new ArrayList<>();
        for (int i = 0; i < before.size(); i++) {
            Column each = before.get(i);
            boolean hasPair = i < after.size() && each.name().is(after.get(i).name());
            if (!hasPair || !each.isKept(after.get(i))) {
                found.add(each);
            }
        }
        return found;
    }

    private static void write(Json json, List<Column> row) throws Malformed {
        json.raw("{");
        String separator = "";
        for (Column each : row) {
            each.writeValue(json.raw(separator));
            separator = ",";
        }
        json.raw("}");
    }

    /** Of a message that has rows. */
    void writeTo(Json json) throws Malformed {
        if (first == null) {
            return;
        }
        json.raw(",\"data\":[").all(data).raw("]");
        if (hasOld) {
            json.raw(",\"old\":[").all(old).raw("]");
        }
        json.raw(",\"mysqlType\":{");
        String separator = "";
        for (Column each : first) {
            json.raw(separator).text(each.name()).raw(":").text(each.type());
            separator = ",";
        }
        json.raw("},\"sqlType\":{");
        separator = "";
        for (int i = 0; i < sqlTypes.length; i++) {
            json.raw(separator).text(first.get(i).name()).raw(":" + sqlTypes[i]);
            separator = ",";
        }
        json.raw("},\"pkNames\":[");
        separator = "";
        for (Column each : first) {
            if (each.isKey()) {
                json.raw(separator).text(each.name());
                separator = ",";
            }
        }
        json.raw("]");
    }
}
