package cdc_assets.decode;

import cdc_assets.decode.values.Arriving;
import cdc_assets.decode.values.Decoder;
import cdc_assets.decode.values.Image;
import cdc_assets.decode.values.Image.Held;
import cdc_assets.decode.values.Placeholder;
import cdc_assets.decode.values.Stored;
import cdc_assets.decode.values.Types;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Decodes changes of a table's rows: keys, rows, and reasons why a record cannot be merged, which
 * never have its values.
 *
 * <p>It is told the table's {@code columns} as they arrive; the lake's ({@code target}), each with
 * the columns as which it may arrive; which of them are the {@code key}, and which an update may
 * leave {@code unset}; and some rules, by their names: see {@code cdc_assets.formats.change}.
 */
final class Changes {
    private static final UTF8String REPLACEMENT = text("\ufffd");
    private static final UTF8String CREATE = text("c");
    private static final UTF8String UPDATE = text("u");
    private static final UTF8String DELETE = text("d");
    private static final UTF8String READ = text("r");
    private static final UTF8String TRUNCATE = text("t");
    private static final UTF8String TOMBSTONE = text("tombstone");
    private static final Set<UTF8String> WITHOUT_ROW = Set.of(TOMBSTONE, text("control"), text("statement"));

    /** A column of the lake, with the columns as which it may arrive. */
    private record Target(String name, DataType type, String saidType, int[] ways, Decoder[] stored) {}

    private final List<Arriving> columns = new ArrayList<>();
    private final List<Target> targets = new ArrayList<>();
    private final Target[] ofColumns;
    private final int[] key;
    private final int[] unset;
    private final boolean[] isOfKey;
    private final boolean[] mayBeHeldBefore;
    private final Image afters;
    private final Image befores;
    private final Image keys;
    private final Placeholder placeholder;
    private final boolean countsRows;
    private final boolean hasRows;
    private final boolean splitKeys;
    private final boolean readsTombstones;
    private final boolean isShared;
    private final boolean hasPositions;
    private final boolean hasTombstones;
    private final boolean leavesOut;
    private final boolean checksTexts;
    private final UTF8String noOp;
    private final StructType type;

    Changes(JsonNode wanted, StructType after, StructType before, StructType ofKey) {
        wanted.path("columns").forEach(each -> columns.add(new Arriving(each)));
        wanted.path("target").forEach(each -> targets.add(target(each)));
        ofColumns = new Target[columns.size()];
        for (Target each : targets) {
            for (int way : each.ways) {
                ofColumns[way] = each;
            }
        }
        key = places(wanted.path("key"));
        unset = places(wanted.path("unset"));
        countsRows = wanted.path("counts_rows").asBoolean();
        hasRows = wanted.path("has_rows").asBoolean();
        splitKeys = wanted.path("split_keys").asBoolean();
        readsTombstones = wanted.path("reads_tombstones").asBoolean();
        isShared = wanted.path("is_shared").asBoolean();
        hasPositions = wanted.path("has_positions").asBoolean();
        hasTombstones = wanted.path("has_tombstones").asBoolean();
        leavesOut = wanted.path("leaves_out").asBoolean();
        checksTexts = wanted.path("checks_texts").asBoolean();
        String reason = wanted.path("no_op").asText();
        noOp = reason.isEmpty() ? null : text(reason);
        isOfKey = new boolean[columns.size()];
        mayBeHeldBefore = new boolean[columns.size()];
        Arrays.fill(mayBeHeldBefore, countsRows);
        for (int each : key) {
            for (int way : targets.get(each).ways) {
                isOfKey[way] = true;
                mayBeHeldBefore[way] |= isTextOfKey(way);
            }
        }
        String text = wanted.path("placeholder").asText();
        placeholder = text.isEmpty() ? null : new Placeholder(text, wanted.path("placeholder_map").asText());
        afters = new Image(after, columns);
        befores = new Image(before, columns);
        keys = new Image(ofKey, columns);
        StructType row = fields(targets);
        DataType ofKeys = countsRows ? nothing() : fields(Arrays.stream(key).mapToObj(targets::get).toList());
        type = new StructType()
                .add("key", ofKeys)
                .add("old_key", ofKeys)
                .add("row", row)
                .add("unset", flags())
                .add("old_row", countsRows ? row : nothing())
                .add("reject", DataTypes.StringType)
                .add("in_doubt", DataTypes.BooleanType)
                .add("ts", DataTypes.TimestampType);
    }

    private Target target(JsonNode told) {
        int[] ways = places(told.path("ways"));
        String said = told.path("type").asText();
        DataType lake = Types.of(said);
        Decoder[] stored = new Decoder[ways.length];
        for (int at = 0; at < ways.length; at++) {
            stored[at] = Stored.in(lake, columns.get(ways[at]).type);
        }
        return new Target(told.path("name").asText(), lake, said, ways, stored);
    }

    private static int[] places(JsonNode told) {
        int[] found = new int[told.size()];
        for (int at = 0; at < found.length; at++) {
            found[at] = told.get(at).asInt();
        }
        return found;
    }

    private static UTF8String text(String text) {
        return UTF8String.fromString(text);
    }

    private static StructType fields(List<Target> targets) {
        StructType found = new StructType();
        for (Target each : targets) {
            found = found.add(each.name, each.type);
        }
        return found;
    }

    private static StructType nothing() {
        return new StructType().add("none", DataTypes.StringType);
    }

    private StructType flags() {
        StructType found = new StructType();
        for (int each : unset) {
            found = found.add(targets.get(each).name, DataTypes.BooleanType, false);
        }
        return unset.length == 0 ? found.add("__none", DataTypes.BooleanType, false) : found;
    }

    /** Returns the type of what {@link #of} returns. */
    StructType type() {
        return type;
    }

    /** Decodes a change, see {@link Change#invoke}. */
    InternalRow of(
            UTF8String op,
            boolean isRead,
            InternalRow rowAfter,
            InternalRow rowBefore,
            InternalRow ofKey,
            ArrayData leftOut,
            ArrayData unchanged,
            boolean hasKey,
            UTF8String reject,
            UTF8String odd,
            UTF8String replaced,
            boolean isBeyondTime,
            Long micros) {
        Held after = afters.of(rowAfter), before = befores.of(rowBefore), held = keys.of(ofKey);
        boolean isUpdate = UPDATE.equals(op), isCreate = CREATE.equals(op), isDelete = DELETE.equals(op);
        boolean isRow = isUpdate || isCreate || READ.equals(op);
        boolean[] isLeftOut = leftOut(after, leftOut);
        Object[] found = new Object[type.size()];
        if (!countsRows) {
            found[0] = key(op, after, before, held, isLeftOut);
            found[1] = isUpdate ? oldKey(after, before, unchanged) : null;
        }
        found[2] = isRow && after.isThere() && hasRows ? row(after, before, isUpdate, isLeftOut) : null;
        found[3] = unset(isUpdate, isCreate, isLeftOut);
        found[4] = countsRows && hasRows && (isUpdate || isDelete) ? row(before) : null;
        found[5] = reject;
        if (found[5] == null && noOp != null) {
            found[5] = unknown(op, isRow || isDelete, hasKey);
        }
        if (found[5] == null) {
            found[5] = odd;
        }
        if (found[5] == null && checksTexts) {
            found[5] = broken(after, before, held);
        }
        if (found[5] == null && replaced != null && (isRow || isDelete)) {
            found[5] = replaced(isRow ? after : null, before, replaced);
        }
        if (found[5] == null) {
            found[5] = odd(op, isRow, after, before, isBeyondTime);
        }
        if (found[5] == null && hasRows) {
            found[5] = unfit(after, isUpdate || isCreate ? isLeftOut : null);
        }
        if (found[5] == null && hasRows && countsRows) {
            found[5] = unfit(before, null);
        }
        if (found[5] == null && isCreate && !isRead && !countsRows && !hasPositions && hasRows) {
            found[5] = undecided(isLeftOut);
        }
        if (found[5] == null && key.length > 0) {
            found[5] = nameless((InternalRow) found[0], (InternalRow) found[1], isRow, isDelete, hasKey);
        }
        found[6] = any((InternalRow) found[3]) && (isCreate || hasMoved(found[0], found[1]));
        found[7] = isRead ? null : micros;
        return new GenericInternalRow(found);
    }

    /** Returns of each column whether its value after a change is left out. */
    private boolean[] leftOut(Held after, ArrayData names) {
        boolean[] found = new boolean[columns.size()];
        Set<UTF8String> named = placeholder == null ? set(names) : Set.of();
        for (int at = 0; at < found.length; at++) {
            if (!columns.get(at).mayBeLeftOut) {
                continue;
            }
            if (placeholder == null) {
                found[at] = !named.isEmpty() && named.contains(text(columns.get(at).name));
            } else {
                Object value = after.value(at);
                found[at] = value != null && placeholder.is(value, afters.type(at));
            }
        }
        return found;
    }

    private static Set<UTF8String> set(ArrayData names) {
        if (names == null || names.numElements() == 0) {
            return Set.of();
        }
        Set<UTF8String> found = new HashSet<>();
        for (int at = 0; at < names.numElements(); at++) {
            found.add(names.getUTF8String(at));
        }
        return found;
    }

    // ── keys ─────────────────────────────────────────────────────────────────────────────────

    /** Returns the key from the row; of a delete from the row before it, else from the record's key. */
    private InternalRow key(UTF8String op, Held after, Held before, Held ofKey, boolean[] isLeftOut) {
        boolean isDelete = DELETE.equals(op), isTombstone = TOMBSTONE.equals(op);
        boolean isAsked = isTombstone && readsTombstones || isDelete && !hasFirst(before);
        Object[] found = new Object[key.length];
        for (int at = 0; at < key.length; at++) {
            Target target = targets.get(key[at]);
            for (int way = 0; way < target.ways.length && found[at] == null; way++) {
                int column = target.ways[way];
                Held image = after;
                if (isDelete || isTombstone) {
                    image = isAsked && before.value(column) == null ? ofKey : before;
                } else if (isLeftOut[column] && isTextOfKey(column)) {
                    image = before;
                }
                found[at] = stored(target, way, image);
            }
        }
        return new GenericInternalRow(found);
    }

    /** Returns whether the row before a change has the key's first column. */
    private boolean hasFirst(Held before) {
        for (int way : targets.get(key[0]).ways) {
            if (before.value(way) != null) {
                return true;
            }
        }
        return false;
    }

    /** Returns whether it is a text of a configured key, which may be large. */
    private boolean isTextOfKey(int column) {
        return splitKeys && columns.get(column).isText();
    }

    /**
     * Returns the key before an update that may have changed it; columns that the row before it lacks
     * have the value of the row after it.
     *
     * <p>For its own record key the connector sends a delete and a create; an update that changes the
     * key nevertheless has a different key before it. A column that is null there was not logged (an
     * index as replica identity): it is unknown.
     */
    private InternalRow oldKey(Held after, Held before, ArrayData unchanged) {
        if (!splitKeys && !differs(after, before)) {
            return null;
        }
        Set<UTF8String> named = set(unchanged);
        Object[] found = new Object[key.length];
        for (int at = 0; at < key.length; at++) {
            Target target = targets.get(key[at]);
            for (int way = 0; way < target.ways.length && found[at] == null; way++) {
                int column = target.ways[way];
                boolean isAfter = before.value(column) == null && named.contains(text(columns.get(column).name));
                found[at] = stored(target, way, isAfter ? after : before);
            }
        }
        return new GenericInternalRow(found);
    }

    private boolean differs(Held after, Held before) {
        for (int each : key) {
            for (int column : targets.get(each).ways) {
                Object was = before.decoded(column);
                Object is = was == null ? null : after.decoded(column);
                if (is != null && !Stored.areSame(was, is)) {
                    return true;
                }
            }
        }
        return false;
    }

    // ── rows ─────────────────────────────────────────────────────────────────────────────────

    /** Returns all columns; some that an update leaves out have the value before it. */
    private InternalRow row(Held after, Held before, boolean isUpdate, boolean[] isLeftOut) {
        Object[] found = new Object[targets.size()];
        for (int at = 0; at < found.length; at++) {
            Target target = targets.get(at);
            boolean isBefore = false;
            for (int way : target.ways) {
                isBefore |= isUpdate && isLeftOut[way] && mayBeHeldBefore[way];
            }
            found[at] = value(isBefore ? before : after, target);
        }
        return new GenericInternalRow(found);
    }

    private InternalRow row(Held image) {
        return new GenericInternalRow(targets.stream().map(each -> value(image, each)).toArray());
    }

    /** Returns the value that is there, of the columns as which a column may arrive. */
    private static Object value(Held image, Target target) {
        Object found = null;
        for (int way = 0; way < target.ways.length && found == null; way++) {
            found = stored(target, way, image);
        }
        return found;
    }

    private static Object stored(Target target, int way, Held image) {
        Object decoded = image.decoded(target.ways[way]);
        return decoded == null ? null : target.stored[way].decode(decoded);
    }

    /**
     * Returns which columns are left out: only an update leaves out, or a create of a changed key.
     *
     * <p>In a row of a snapshot the same text is data, and in any other create. Without positions such
     * a create is rejected.
     */
    private InternalRow unset(boolean isUpdate, boolean isCreate, boolean[] isLeftOut) {
        Object[] found = new Object[Math.max(unset.length, 1)];
        Arrays.fill(found, false);
        boolean mayBe = isUpdate || isCreate && !countsRows && hasPositions;
        for (int at = 0; at < unset.length && hasRows; at++) {
            int[] ways = targets.get(unset[at]).ways;
            boolean is = ways.length == 0 && leavesOut && isUpdate;
            for (int way : ways) {
                is |= mayBe && isLeftOut[way];
            }
            found[at] = is;
        }
        return new GenericInternalRow(found);
    }

    // ── reasons ──────────────────────────────────────────────────────────────────────────────

    /** Returns why an operation is none that can be merged. */
    private UTF8String unknown(UTF8String op, boolean isChange, boolean hasKey) {
        if (TOMBSTONE.equals(op)) {
            return hasKey || key.length == 0 ? null : text("neither key nor value");
        }
        if (op == null) {
            return noOp;
        }
        return isChange || TRUNCATE.equals(op) ? null : text("an operation that is not known");
    }

    /** Returns the first column with a text that is not UTF-8: Spark accepts it, no reader does. */
    private UTF8String broken(Held... images) {
        for (Held image : images) {
            for (int column = 0; column < columns.size(); column++) {
                if (columns.get(column).isOfTexts() && !areValid(image.value(column))) {
                    return text(columns.get(column).said + ": it is not UTF-8");
                }
            }
        }
        return null;
    }

    private static boolean areValid(Object value) {
        if (value instanceof UTF8String text) {
            return text.isValid();
        }
        boolean found = true;
        if (value instanceof ArrayData list) {
            for (int at = 0; found && at < list.numElements(); at++) {
                found = list.isNullAt(at) || list.getUTF8String(at).isValid();
            }
        }
        return found;
    }

    /** Returns the first column with U+FFFD among those of text: of the row, then of its key before. */
    private UTF8String replaced(Held after, Held before, UTF8String reason) {
        for (Held image : new Held[] {after, before}) {
            for (int column = 0; image != null && column < columns.size(); column++) {
                Arriving told = columns.get(column);
                boolean isRead = image == after || countsRows || isOfKey[column];
                boolean isText = isRead && told.type.equals(DataTypes.StringType);
                if (isText && image.value(column) instanceof UTF8String text && text.contains(REPLACEMENT)) {
                    return UTF8String.concat(text(told.said + ": "), reason);
                }
            }
        }
        return null;
    }

    /** Returns why a record is none that can be merged, whatever its values are. */
    private UTF8String odd(UTF8String op, boolean isRow, Held after, Held before, boolean isBeyondTime) {
        if (isShared && TOMBSTONE.equals(op)) {
            return text(
                    "a record without a value that follows no delete, in a topic of several tables:"
                            + " nothing says whose row it deletes");
        }
        if (op != null && WITHOUT_ROW.contains(op)) {
            return null;
        }
        if (isRow && !after.isThere()) {
            return text("no row image (after)");
        }
        if (isBeyondTime) {
            return text("its commit time (source.ts_ms) is beyond the year 9999");
        }
        boolean needsBefore = countsRows && hasRows && (UPDATE.equals(op) || DELETE.equals(op));
        return needsBefore && !before.isThere()
                ? text("no row image before the change: without a key it needs REPLICA IDENTITY FULL")
                : null;
    }

    /** Returns why a change of a row does not say whose it is. */
    private UTF8String nameless(InternalRow of, InternalRow ofOld, boolean isRow, boolean isDelete, boolean hasKey) {
        if ((isRow || isDelete) && of.anyNull()) {
            boolean isNowhere = isDelete && !(hasKey && hasTombstones);
            return text(isNowhere ? "a delete with neither key nor before image" : "a key column has no value");
        }
        return ofOld != null && ofOld.anyNull()
                ? text("an update without the key before it (REPLICA IDENTITY FULL would log it)")
                : null;
    }

    private static boolean hasMoved(Object now, Object before) {
        if (before == null) {
            return false;
        }
        Object[] of = ((GenericInternalRow) now).values(), ofOld = ((GenericInternalRow) before).values();
        boolean isSame = true;
        for (int at = 0; at < of.length; at++) {
            isSame &= of[at] == null ? ofOld[at] == null : Stored.areSame(of[at], ofOld[at]);
        }
        return !isSame;
    }

    private static boolean any(InternalRow flags) {
        boolean is = false;
        for (int at = 0; at < flags.numFields(); at++) {
            is |= flags.getBoolean(at);
        }
        return is;
    }

    /** Returns the first column whose value fits neither its own type nor the lake's. */
    private UTF8String unfit(Held image, boolean[] isLeftOut) {
        for (int column = 0; column < columns.size(); column++) {
            if (isLeftOut != null && isLeftOut[column] || image.value(column) == null) {
                continue;
            }
            Arriving told = columns.get(column);
            if (image.decoded(column) == null) {
                return text(told.said + ": its value does not fit " + told.saidType);
            }
            Target target = ofColumns[column];
            if (target != null && stored(target, wayOf(target, column), image) == null) {
                return text(told.said + ": its value does not fit " + target.saidType);
            }
        }
        return null;
    }

    private static int wayOf(Target target, int column) {
        for (int way = 0; way < target.ways.length; way++) {
            if (target.ways[way] == column) {
                return way;
            }
        }
        throw new IllegalArgumentException("a column that is none of the target's");
    }

    /**
     * Rejects a create with a placeholder, where only offsets order the changes: a changed key is a
     * delete and a create at one position; without positions it may be that, or an insert of this text.
     */
    private UTF8String undecided(boolean[] isLeftOut) {
        for (int column = 0; column < isLeftOut.length; column++) {
            if (isLeftOut[column]) {
                return text(
                        columns.get(column).said
                                + ": a create with the connector's placeholder: without positions"
                                + " (source.lsn and source.sequence) an unchanged value of a changed key"
                                + " cannot be told from data");
            }
        }
        return null;
    }
}
