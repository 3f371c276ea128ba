package dev.outrigger.provider;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import java.time.Duration;
import java.util.Iterator;
import java.util.stream.Stream;

/** Sends a list as messages of about 1 MiB, of which the last one says that the list is complete. */
final class Pages {
  private static final int TARGET_BYTES = 1 << 20;
  /** A message that grows slowly is sent after this time: the caller cancels after MethodRules.max_silence. */
  private static final Duration TARGET_AGE = Duration.ofSeconds(10);
  // A repeated field adds to each item its tag and its length.
  private static final int OVERHEAD = 6;

  private Pages() {}

  /** Sends the items of a handler's list. */
  static void send(Call call, Message response, Stream<? extends Message> list, Rpc.Sink sink) throws InterruptedException {
    if (list == null) {
      throw new IllegalStateException("the handler has answered null, and not a list");
    }
    FieldDescriptor items = response.getDescriptorForType().findFieldByName("items");
    Message.Builder page = response.newBuilderForType();
    int most = Math.min(TARGET_BYTES, call.maxSendBytes());
    int size = 0;
    long since = System.nanoTime();
    try (list) {
      for (Iterator<? extends Message> each = list.iterator(); each.hasNext();) {
        Message item = each.next();
        if (item == null) {
          throw new IllegalStateException("the handler has listed null");
        }
        int more = item.getSerializedSize() + OVERHEAD;
        if (more > call.maxSendBytes()) {
          throw new IllegalStateException(
              "an item of the list has " + more + " bytes, and the controller accepts " + call.maxSendBytes());
        }
        boolean isFull = size + more > most || System.nanoTime() - since > TARGET_AGE.toNanos();
        if (size > 0 && isFull) {
          sink.send(page.build());
          page = response.newBuilderForType();
          size = 0;
        }
        if (size == 0) {
          since = System.nanoTime();
        }
        page.addRepeatedField(items, item);
        size += more;
      }
    }
    sink.send(page.setField(response.getDescriptorForType().findFieldByName("complete"), true).build());
  }
}
