package cdc_assets.decode.values;

/** Counts the digits of numbers as they are written. */
public final class Digits {
    /** Digits that distinguish every number in floating point from its neighbours (IEEE 754). */
    private static final int OF_A_DOUBLE = 17, OF_A_FLOAT = 9;

    /** Of these powers of two on, Java before 19 writes some doubles with a digit too many. */
    private static final int FIRST_OF_JAVA = 56, LAST_OF_JAVA = 60;

    private Digits() {}

    /**
     * Returns whether a text has more digits than any double needs, and so is no double's, or is a
     * number too small for one.
     *
     * <p>Java 17, on which connectors run, writes 18 digits of some doubles from 2^56 to 2^61
     * (JDK-4511638), always with an exponent.
     *
     * @param found the double that it is read as
     */
    public static boolean areRounded(String number, double found) {
        int digits = significant(number);
        if (found == 0) {
            return digits > 0;
        }
        if (digits != OF_A_DOUBLE + 1) {
            return digits > OF_A_DOUBLE;
        }
        int power = Math.getExponent(found);
        return power < FIRST_OF_JAVA || power > LAST_OF_JAVA || number.indexOf('E') < 0;
    }

    /**
     * Returns the same of a number in single precision, which may also be written as the double that
     * it is.
     */
    public static boolean areRounded(String number, float found) {
        boolean isLong = significant(number) > OF_A_FLOAT;
        return areRounded(number, (double) found) || isLong && Double.parseDouble(number) != found;
    }

    /** Returns how many digits there are between the zeros at both ends, before an exponent. */
    private static int significant(String number) {
        int found = 0, zeros = 0;
        for (int at = 0; at < number.length(); at++) {
            char each = number.charAt(at);
            if (each == 'e' || each == 'E') {
                break;
            }
            if (each == '0') {
                zeros += found > 0 ? 1 : 0;
            } else if (each >= '1' && each <= '9') {
                found += zeros + 1;
                zeros = 0;
            }
        }
        return found;
    }
}
