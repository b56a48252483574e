package cdc_assets.decode.canal;

/**
 * The fields of one message in protobuf's wire format, one after the other.
 *
 * <p>Nothing is copied, and nothing is allocated for a length that bytes announce. What the format
 * would allow and Canal never writes is malformed: a field of another type than the message has,
 * one twice that comes once, and groups. Fields that nobody asks for are passed over.
 *
 * <p>https://protobuf.dev/programming-guides/encoding/
 */
final class Fields {
    private static final int VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5;
    private static final int LONGEST_VARINT = 10;

    final byte[] bytes;
    private final int end;
    private int at;
    private int type;
    private int seen;
    /** Of the field that `next` has found. */
    int number;
    /** Where the content of a text, or of a message, begins, and where it ends. */
    int start, stop;
    private long value;

    Fields(byte[] bytes, int start, int stop) {
        this.bytes = bytes;
        this.at = start;
        this.end = stop;
    }

    /** The fields of the message that the present field is. */
    Fields inner() throws Malformed {
        require(LENGTH);
        return new Fields(bytes, start, stop);
    }

    /** Goes on to the next field; false if there is none. */
    boolean next() throws Malformed {
        if (at == end) {
            return false;
        }
        long tag = varint();
        number = (int) (tag >>> 3);
        type = (int) (tag & 7);
        if (tag >>> 32 != 0 || number == 0) {
            throw broken();
        }
        switch (type) {
            case VARINT -> value = varint();
            case FIXED64 -> skip(8);
            case LENGTH -> {
                long length = varint();
                start = at;
                skip(length);
                stop = at;
            }
            case FIXED32 -> skip(4);
            default -> throw broken();
        }
        return true;
    }

    /** The present field, a number; it comes once. */
    long number() throws Malformed {
        require(VARINT);
        once();
        return value;
    }

    /** The present field, a flag; it comes once. */
    boolean flag() throws Malformed {
        return number() != 0;
    }

    /** The present field, a text; it comes once. */
    Text text() throws Malformed {
        require(LENGTH);
        once();
        return new Text(bytes, start, stop);
    }

    /** The fields of the message that the present field is; it comes once. */
    Fields message() throws Malformed {
        once();
        return inner();
    }

    private void once() throws Malformed {
        int bit = 1 << number;
        if (number > 31 || (seen & bit) != 0) {
            throw new Malformed("a field that comes once is there twice");
        }
        seen |= bit;
    }

    private void require(int wanted) throws Malformed {
        if (type != wanted) {
            throw new Malformed("a field is of another type than Canal's");
        }
    }

    private void skip(long length) throws Malformed {
        if (length < 0 || length > end - at) {
            throw broken();
        }
        at += (int) length;
    }

    private long varint() throws Malformed {
        long found = 0;
        for (int i = 0; i < LONGEST_VARINT && at < end; i++) {
            byte next = bytes[at++];
            found |= (long) (next & 0x7f) << (7 * i);
            if (next >= 0) {
                return found;
            }
        }
        throw broken();
    }

    private static Malformed broken() {
        return new Malformed("it is not protobuf, or was cut off");
    }
}
