package cdc_assets.decode.values;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

/** Decodes numbers, in bytes and in text. Nothing is rounded. */
final class Numbers {
    /** Limit for a decimal without precision: some 2,460 digits. Longer ones take ever more time. */
    private static final int MOST_BYTES = 1_024;

    /** Digits after the point, or zeros before it: PostgreSQL has up to 16,383. */
    private static final int MOST_SCALE = 20_000;

    /** The limit of PostgreSQL's {@code numeric(p,s)}. */
    private static final int MOST_TOLD_SCALE = 1_000;

    /** More than any decimal of the lake has. */
    private static final int MOST_DIGITS = 80;

    private static final int DIGITS_OF_EXPONENT = 4;
    private static final int NO_POWER = Integer.MIN_VALUE;
    private static final BigInteger WRAPPED = BigInteger.ONE.shiftLeft(64);

    private Numbers() {}

    /** Returns a number in a whole or decimal type; null if it does not fit. */
    static Object fitting(BigDecimal number, DataType type) {
        if (number == null) {
            return null;
        }
        if (type instanceof DecimalType decimal) {
            return fitting(number, decimal);
        }
        if (number.signum() != 0 && number.precision() - number.scale() > 19) {
            return null;
        }
        long found;
        try {
            found = number.longValueExact();
        } catch (ArithmeticException error) {
            return null;
        }
        if (type.equals(DataTypes.LongType)) {
            return found;
        }
        return found == (int) found ? (Object) (int) found : null;
    }

    private static Decimal fitting(BigDecimal number, DecimalType type) {
        boolean isNothing = number.signum() == 0;
        BigDecimal plain = isNothing ? BigDecimal.ZERO : number.stripTrailingZeros();
        int digitsBefore = isNothing ? 0 : plain.precision() - plain.scale();
        if (plain.scale() > type.scale() || digitsBefore > type.precision() - type.scale()) {
            return null;
        }
        return Decimal.apply(plain.setScale(type.scale()), type.precision(), type.scale());
    }

    // ── bytes ────────────────────────────────────────────────────────────────────────────────

    /** Returns the number of big-endian bytes in two's complement. */
    static BigDecimal ofBytes(byte[] bytes, int scale) {
        boolean fits = bytes.length > 0 && bytes.length <= MOST_BYTES && Math.abs((long) scale) <= MOST_SCALE;
        return fits ? new BigDecimal(new BigInteger(bytes), scale) : null;
    }

    /**
     * Returns all digits of a number, and those after the point as its scale tells.
     *
     * <p>PostgreSQL keeps a scale in 11 bits, whose sign Debezium ignores: -2 becomes 2,046. The
     * zeros that come from that are left off.
     */
    static UTF8String digits(BigDecimal number, boolean isToldScale) {
        if (number == null) {
            return null;
        }
        BigDecimal plain = number;
        if (isToldScale && number.scale() > MOST_TOLD_SCALE) {
            BigDecimal bare = number.signum() == 0 ? BigDecimal.ZERO : number.stripTrailingZeros();
            plain = bare.scale() <= 0 ? bare : number;
        }
        return UTF8String.fromString(plain.signum() == 0 && plain.scale() < 0 ? "0" : plain.toPlainString());
    }

    /** Returns a number of 64 bits without a sign, which are given as one with a sign. */
    static BigDecimal unsigned(long bits) {
        BigInteger number = BigInteger.valueOf(bits);
        return new BigDecimal(bits < 0 ? number.add(WRAPPED) : number);
    }

    /** Returns the number of up to eight little-endian bytes; PostgreSQL sends no bytes for 0. */
    static BigDecimal ofBits(byte[] bytes, int count) {
        if (bytes.length > Long.BYTES) {
            return null;
        }
        byte[] ordered = new byte[bytes.length];
        for (int at = 0; at < bytes.length; at++) {
            ordered[at] = bytes[bytes.length - 1 - at];
        }
        BigInteger found = new BigInteger(1, ordered);
        return count > 0 && found.bitLength() > count ? null : new BigDecimal(found);
    }

    // ── texts ────────────────────────────────────────────────────────────────────────────────

    /** Reads a whole number. */
    static BigDecimal whole(UTF8String text) {
        return read(text, false, false);
    }

    /** Reads digits, perhaps with a point among them. */
    static BigDecimal plain(UTF8String text) {
        return read(text, true, false);
    }

    /** Reads such digits, perhaps with an exponent. */
    static BigDecimal any(UTF8String text) {
        return read(text, true, true);
    }

    private static BigDecimal read(UTF8String text, boolean mayHavePoint, boolean mayHavePower) {
        Scan scan = new Scan(text);
        boolean isNegative = scan.isNext('-');
        if (!scan.take('-')) {
            scan.take('+');
        }
        scan.skip('0');
        int from = scan.place();
        int digits = scan.digits();
        boolean hasWhole = scan.place() > (isSigned(text) ? 1 : 0);
        String whole = digits > MOST_DIGITS ? null : scan.between(from, from + digits);
        String fraction = "";
        if (mayHavePoint && scan.take('.')) {
            fraction = fraction(scan);
        }
        int power = mayHavePower ? power(scan) : 0;
        if (!hasWhole || !scan.isDone() || whole == null || fraction == null || power == NO_POWER) {
            return null;
        }
        BigInteger all = new BigInteger("0" + whole + fraction);
        return new BigDecimal(isNegative ? all.negate() : all, fraction.length() - power);
    }

    private static boolean isSigned(UTF8String text) {
        return text.numBytes() > 0 && (text.getByte(0) == '-' || text.getByte(0) == '+');
    }

    /** Reads digits after a point; returns them without zeros at their end, null if too many. */
    private static String fraction(Scan scan) {
        int from = scan.place(), end = from;
        while (true) {
            scan.skip('0');
            int other = scan.place();
            int digit = scan.number(1, 1);
            if (digit < 0) {
                return end - from > MOST_DIGITS ? null : scan.between(from, end);
            }
            end = other + 1;
        }
    }

    /** Reads an exponent; returns 0 for none. */
    private static int power(Scan scan) {
        if (!scan.take('e') && !scan.take('E')) {
            return 0;
        }
        boolean isNegative = scan.take('-');
        if (!isNegative) {
            scan.take('+');
        }
        int found = scan.number(1, DIGITS_OF_EXPONENT);
        return found < 0 ? NO_POWER : isNegative ? -found : found;
    }

    /**
     * Reads a number in floating point; null for infinity, for less than the least, and for more
     * digits than distinguish every such number from its neighbours (IEEE 754).
     */
    static Object floating(UTF8String text, boolean isDouble) {
        Scan scan = new Scan(text);
        if (!scan.take('-')) {
            scan.take('+');
        }
        int digits = scan.digits();
        digits += scan.take('.') ? scan.digits() : 0;
        if (digits == 0 || power(scan) == NO_POWER || !scan.isDone()) {
            return null;
        }
        String number = text.toString();
        if (isDouble) {
            double found = Double.parseDouble(number);
            return Double.isInfinite(found) || Digits.areRounded(number, found) ? null : (Object) found;
        }
        float found = Float.parseFloat(number);
        return Float.isInfinite(found) || Digits.areRounded(number, found) ? null : (Object) found;
    }

    /** Returns whether a text is a number as a decimal without precision is written. */
    static boolean isNumber(UTF8String text) {
        Scan scan = new Scan(text);
        scan.take('-');
        boolean found = scan.digits() > 0 && (!scan.take('.') || scan.digits() > 0);
        if (found && (scan.take('e') || scan.take('E'))) {
            if (!scan.take('-')) {
                scan.take('+');
            }
            found = scan.digits() > 0;
        }
        return found && scan.isDone();
    }

    /** Returns a number of up to 64 bits without a sign; null for anything else. */
    static Long bitsOf(UTF8String text) {
        boolean isPlain = text.numBytes() > 0 && !isSigned(text);
        BigDecimal found = isPlain ? whole(text) : null;
        if (found == null || found.toBigInteger().bitLength() > Long.SIZE) {
            return null;
        }
        return found.toBigInteger().longValue();
    }
}
