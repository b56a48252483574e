package cdc_assets.decode.avro;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * A union. Of one type and null it is read as that type; of int and long, or float and double, as the
 * wider one; of several others as a struct of {@code member0}, {@code member1}, …, of which one has a
 * value. Null is no member.
 */
final class Unions extends Shape {
    private final Shape[] branches;
    private final int[] members;
    private final int size;
    private final boolean isMerged;

    /**
     * @param branches all of them; null for Avro's null
     * @param others those that are not null
     * @param merged the type that has all values of the others; null if there is none
     */
    Unions(List<Shape> branches, List<Shape> others, DataType merged) {
        super(merged == null ? members(others) : merged);
        this.branches = branches.toArray(Shape[]::new);
        isMerged = merged != null;
        size = others.size();
        members = new int[this.branches.length];
        int next = 0;
        for (int at = 0; at < members.length; at++) {
            members[at] = this.branches[at] == null ? -1 : next++;
        }
    }

    private static StructType members(List<Shape> others) {
        StructType found = new StructType();
        for (int at = 0; at < others.size(); at++) {
            found = found.add("member" + at, others.get(at).type);
        }
        return found;
    }

    @Override
    Object read(Binary from) throws Broken {
        int place = place(from);
        if (branches[place] == null) {
            return null;
        }
        Object found = branches[place].read(from);
        if (isMerged) {
            return widened(found);
        }
        Object[] members = new Object[size];
        members[this.members[place]] = found;
        return new GenericInternalRow(members);
    }

    private Object widened(Object value) {
        if (type == DataTypes.LongType && value instanceof Integer number) {
            return number.longValue();
        }
        return type == DataTypes.DoubleType && value instanceof Float number ? (Object) number.doubleValue() : value;
    }

    @Override
    void skip(Binary from) throws Broken {
        int place = place(from);
        if (branches[place] != null) {
            branches[place].skip(from);
        }
    }

    private int place(Binary from) throws Broken {
        int place = from.number();
        if (place < 0 || place >= branches.length) {
            throw new Broken();
        }
        return place;
    }
}
