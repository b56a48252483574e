package cdc_assets.decode.avro;

/** Bytes are not what their schema says, or were cut off. */
final class Broken extends Exception {
    private static final long serialVersionUID = 1;

    Broken() {
        super(null, null, false, false);
    }
}
