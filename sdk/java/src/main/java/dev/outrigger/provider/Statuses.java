package dev.outrigger.provider;

import com.google.rpc.Code;
import com.google.rpc.Status;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetEncoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** The statuses that exceptions of handlers lead to, within the limits of the contract. */
final class Statuses {
  private static final int MOST_TEXT_BYTES = 1 << 10;
  private static final String ELLIPSIS = "…";

  private Statuses() {}

  /** The deadline came before the answer. */
  static final class NotAnsweredException extends RuntimeException {
    private static final long serialVersionUID = 1;

    NotAnsweredException(String text) {
      super(text);
    }
  }

  /** An exception that is not deliberate is logged, and not sent: its text may contain anything. */
  static Status of(Throwable error, String requestId) {
    if (error instanceof ProviderException deliberate) {
      return deliberate.itemStatus();
    }
    if (error instanceof NotAnsweredException) {
      return status(Code.DEADLINE_EXCEEDED, error.getMessage());
    }
    if (error instanceof CallerGoneException) {
      return status(Code.CANCELLED, error.getMessage());
    }
    Logs.error("the provider failed", error);
    return status(Code.INTERNAL, "the provider failed: look for request id " + requestId + " in its log");
  }

  private static Status status(Code code, String text) {
    return Status.newBuilder().setCode(code.getNumber()).setMessage(text).build();
  }

  static String cut(String text) {
    return cut(text, MOST_TEXT_BYTES);
  }

  /** At most so many bytes of a text, on a character, with an ellipsis where it was cut. */
  static String cut(String text, int most) {
    if (text == null) {
      return "";
    }
    ByteBuffer whole = encoded(text, Integer.MAX_VALUE);
    if (whole.remaining() <= most) {
      return StandardCharsets.UTF_8.decode(whole).toString();
    }
    int room = most - ELLIPSIS.getBytes(StandardCharsets.UTF_8).length;
    return StandardCharsets.UTF_8.decode(encoded(text, room)) + ELLIPSIS;
  }

  /** Whole characters only: the encoder stops before one that does not fit. A half of a pair becomes a question mark. */
  private static ByteBuffer encoded(String text, int most) {
    CharsetEncoder encoder = StandardCharsets.UTF_8.newEncoder()
        .onMalformedInput(CodingErrorAction.REPLACE).onUnmappableCharacter(CodingErrorAction.REPLACE);
    ByteBuffer bytes = ByteBuffer.allocate((int) Math.min(most, 3L * text.length() + 4));
    encoder.encode(CharBuffer.wrap(text), bytes, true);
    return bytes.flip();
  }

  static com.google.protobuf.Duration duration(Duration time) {
    return com.google.protobuf.Duration.newBuilder().setSeconds(time.getSeconds()).setNanos(time.getNano()).build();
  }

  static Duration time(com.google.protobuf.Duration duration) {
    return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
  }
}
