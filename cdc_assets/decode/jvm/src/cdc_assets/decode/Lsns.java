package cdc_assets.decode;

/**
 * Parses the two LSNs in Debezium's ``source.sequence`` of PostgreSQL, such as
 * ``["24023128","24023200"]`` or ``[null,"24023200"]``. Each is null if it is not there, is no number,
 * or has more than 63 bits.
 */
final class Lsns {
    private Lsns() {}

    /** Returns the LSN of the last commit before. */
    static Long lastCommit(byte[] text) {
        if (text.length < 2 || text[0] != '[' || text[1] != '"') {
            return null;
        }
        int end = 2;
        while (end < text.length && text[end] != '"') {
            end++;
        }
        return number(text, 2, end);
    }

    /** Returns the change's own LSN. */
    static Long lsn(byte[] text) {
        int end = text.length - 2;
        if (end < 1 || text[end] != '"' || text[end + 1] != ']') {
            return null;
        }
        int start = end;
        while (start > 0 && text[start - 1] != '"') {
            start--;
        }
        return start == 0 || text[start] == '-' ? null : number(text, start, end);
    }

    private static Long number(byte[] text, int start, int end) {
        boolean isNegative = start < end && text[start] == '-';
        int at = isNegative ? start + 1 : start;
        if (at == end) {
            return null;
        }
        long found = 0;
        for (; at < end; at++) {
            int digit = text[at] - '0';
            if (digit < 0 || digit > 9 || found > (Long.MAX_VALUE - digit) / 10) {
                return null;
            }
            found = 10 * found + digit;
        }
        return isNegative ? -found : found;
    }
}
