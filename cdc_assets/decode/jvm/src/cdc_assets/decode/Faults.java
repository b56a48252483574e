package cdc_assets.decode;

/** What was found of a document's values. */
final class Faults {
    /** Whether one did not fit its type. */
    boolean isMisfit;

    /** Whether one is JSON that Spark's variants cannot hold. */
    boolean isUnkept;
}
