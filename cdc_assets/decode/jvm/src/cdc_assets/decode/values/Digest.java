package cdc_assets.decode.values;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.ZoneOffset;
import java.util.HexFormat;
import org.apache.spark.sql.catalyst.expressions.json.StructsToJsonEvaluator;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.types.variant.Variant;
import org.apache.spark.types.variant.VariantUtil.Type;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;
import scala.Option;

/** Writes compound values as JSON, and digests of masked ones. */
final class Digest {
    private Digest() {}

    /** Returns SHA-256 of the bytes or text that a value arrives as: 64 hexadecimal digits. */
    static Decoder of(Arriving column, DataType arriving) {
        if (arriving instanceof ArrayType || arriving instanceof StructType) {
            var written =
                    new StructsToJsonEvaluator(
                            scala.collection.immutable.Map$.MODULE$.empty(), arriving, Option.apply("UTC"));
            return value -> sha256(written.evaluate(value).toString());
        }
        boolean isInBytes = column.wire.equals("text_latin1");
        return value -> {
            if (value instanceof byte[] bytes) {
                return sha256(bytes);
            }
            if (value instanceof VariantVal variant) {
                return sha256(json(variant).toString());
            }
            UTF8String text = isInBytes ? Octets.text((UTF8String) value) : null;
            return sha256((text == null ? value : text).toString());
        };
    }

    /** Returns a variant as JSON. */
    static UTF8String json(Object value) {
        return UTF8String.fromString(variant(value).toJson(ZoneOffset.UTC));
    }

    /** Returns whether a value is JSON's null, as a variant. */
    static boolean isNothing(Object value) {
        return value instanceof VariantVal && variant(value).getType() == Type.NULL;
    }

    private static Variant variant(Object value) {
        VariantVal held = (VariantVal) value;
        return new Variant(held.getValue(), held.getMetadata());
    }

    private static UTF8String sha256(String text) {
        return sha256(text.getBytes(StandardCharsets.UTF_8));
    }

    private static UTF8String sha256(byte[] bytes) {
        try {
            byte[] found = MessageDigest.getInstance("SHA-256").digest(bytes);
            return UTF8String.fromString(HexFormat.of().formatHex(found));
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }
}
