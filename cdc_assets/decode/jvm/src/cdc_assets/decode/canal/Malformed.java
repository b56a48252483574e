package cdc_assets.decode.canal;

/** Bytes that are not what they should be; the message says why, and nothing of what they hold. */
final class Malformed extends Exception {
    private static final long serialVersionUID = 1;

    Malformed(String reason) {
        // Thrown for any bytes that come along: a stack trace would cost more than reading them.
        super(reason, null, false, false);
    }
}
