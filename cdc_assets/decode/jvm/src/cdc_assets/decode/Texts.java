package cdc_assets.decode;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import org.apache.spark.unsafe.types.UTF8String;

/** Looks at bytes for what a parser passes over in silence. */
final class Texts {
    private static final VarHandle LONGS =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final long HIGH = 0x8080808080808080L;
    private static final long LOW = 0x0101010101010101L;
    private static final long BACKSLASHES = LOW * '\\';

    private Texts() {}

    /** Returns the fault of bytes that are to be JSON; null if they have none of these. */
    static Fault fault(byte[] bytes) {
        int first = firstOdd(bytes, 0);
        if (first == bytes.length) {
            return null;
        }
        if (!isAscii(bytes, first) && !UTF8String.fromBytes(bytes).isValid()) {
            return Fault.NOT_UTF8;
        }
        return hasHalfACharacter(bytes, first) ? Fault.HALF_A_CHARACTER : null;
    }

    /** Returns the place of the first byte beyond ASCII or backslash, or the length. */
    private static int firstOdd(byte[] bytes, int from) {
        int at = from;
        for (; at <= bytes.length - 8; at += 8) {
            long eight = (long) LONGS.get(bytes, at);
            if (((eight | haveBackslash(eight)) & HIGH) != 0) {
                break;
            }
        }
        while (at < bytes.length && bytes[at] >= 0 && bytes[at] != '\\') {
            at++;
        }
        return at;
    }

    /** Returns the place of the first backslash, or the length. */
    private static int backslash(byte[] bytes, int from) {
        int at = from;
        while (at <= bytes.length - 8 && (haveBackslash((long) LONGS.get(bytes, at)) & HIGH) == 0) {
            at += 8;
        }
        while (at < bytes.length && bytes[at] != '\\') {
            at++;
        }
        return at;
    }

    /** Returns eight bytes of which one has its highest bit set if one of these is a backslash. */
    private static long haveBackslash(long eight) {
        long unlike = eight ^ BACKSLASHES;
        return (unlike - LOW) & ~unlike;
    }

    private static boolean isAscii(byte[] bytes, int from) {
        int at = from;
        for (; at <= bytes.length - 8; at += 8) {
            if (((long) LONGS.get(bytes, at) & HIGH) != 0) {
                return false;
            }
        }
        for (; at < bytes.length; at++) {
            if (bytes[at] < 0) {
                return false;
            }
        }
        return true;
    }

    /** Returns whether an escape names a surrogate outside of a pair. */
    private static boolean hasHalfACharacter(byte[] bytes, int from) {
        for (int at = backslash(bytes, from); at < bytes.length - 1; at = backslash(bytes, at + 1)) {
            at++;
            if (bytes[at] != 'u') {
                continue;
            }
            int unit = unit(bytes, at + 1);
            if (unit < 0xD800 || unit > 0xDFFF) {
                continue;
            }
            boolean isFollowed = at + 6 < bytes.length && bytes[at + 5] == '\\' && bytes[at + 6] == 'u';
            int second = isFollowed ? unit(bytes, at + 7) : -1;
            if (unit > 0xDBFF || second < 0xDC00 || second > 0xDFFF) {
                return true;
            }
            at += 10;
        }
        return false;
    }

    /** Returns the number of four hexadecimal digits; -1 if they are none. */
    private static int unit(byte[] bytes, int at) {
        if (at + 4 > bytes.length) {
            return -1;
        }
        int found = 0;
        for (int i = at; i < at + 4; i++) {
            int digit = Character.digit(bytes[i], 16);
            if (digit < 0) {
                return -1;
            }
            found = found << 4 | digit;
        }
        return found;
    }
}
