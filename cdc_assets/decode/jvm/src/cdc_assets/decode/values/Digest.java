package cdc_assets.decode.values;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.ZoneOffset;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
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

    /**
     * Returns SHA-256 of the bytes or text that a value arrives as: 64 hexadecimal digits. With a salt
     * it is HMAC-SHA-256, with the salt as its key.
     */
    static Decoder of(Arriving column, DataType arriving) {
        byte[] salt = column.salt.getBytes(StandardCharsets.UTF_8);
        if (arriving instanceof ArrayType || arriving instanceof StructType) {
            var written =
                    new StructsToJsonEvaluator(
                            scala.collection.immutable.Map$.MODULE$.empty(), arriving, Option.apply("UTC"));
            return value -> sha256(written.evaluate(value).toString(), salt);
        }
        boolean isInBytes = column.wire.equals("text_latin1");
        return value -> {
            if (value instanceof byte[] bytes) {
                return sha256(bytes, salt);
            }
            if (value instanceof VariantVal variant) {
                return sha256(json(variant).toString(), salt);
            }
            UTF8String text = isInBytes ? Octets.text((UTF8String) value) : null;
            return sha256((text == null ? value : text).toString(), salt);
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

    private static UTF8String sha256(String text, byte[] salt) {
        return sha256(text.getBytes(StandardCharsets.UTF_8), salt);
    }

    private static UTF8String sha256(byte[] bytes, byte[] salt) {
        try {
            return UTF8String.fromString(HexFormat.of().formatHex(digest(bytes, salt)));
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    private static byte[] digest(byte[] bytes, byte[] salt) throws GeneralSecurityException {
        if (salt.length == 0) {
            return MessageDigest.getInstance("SHA-256").digest(bytes);
        }
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(salt, "HmacSHA256"));
        return mac.doFinal(bytes);
    }
}
