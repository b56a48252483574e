package cdc_assets.decode;

import org.apache.spark.unsafe.types.UTF8String;

/** What makes a document unreadable, from the most to the least serious. */
enum Fault {
    NOT_UTF8("its value is not UTF-8"),
    OTHER_SHAPE("not a JSON object of the expected shape and types"),
    HALF_A_CHARACTER("a text holds half of a surrogate pair"),
    NOT_KEPT("a value of type JSON that cannot be kept");

    final UTF8String text;

    Fault(String text) {
        this.text = UTF8String.fromString(text);
    }
}
