package dev.outrigger.provider;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.Iterator;
import java.util.stream.Stream;

/** Sends a list as messages of about 1 MiB, of which the last one says that the list is complete. */
final class Pages {
  /** The controller accepts no larger message. */
  private static final int PAGE_BYTES = 1 << 20;
  /** A message that grows slowly is sent after this time: the caller cancels after MethodRules.max_silence. */
  private static final Duration PAGE_AGE = Duration.ofSeconds(10);
  /** A repeated field adds to each item its tag and its length. */
  private static final int OVERHEAD = 6;

  /** Sends the items of a handler's list to a caller of a streaming method. */
  static <A> void send(Call call, Message response, Stream<? extends Message> list, StreamObserver<A> caller) throws InterruptedException {
    FieldDescriptor items = response.getDescriptorForType().findFieldByName("items");
    Message.Builder page = response.newBuilderForType();
    int size = 0;
    long since = System.nanoTime();
    try (list) {
      for (Iterator<? extends Message> each = list.iterator(); each.hasNext();) {
        Message item = each.next();
        int more = item.getSerializedSize() + OVERHEAD;
        boolean isFull = size + more > PAGE_BYTES || System.nanoTime() - since > PAGE_AGE.toNanos();
        if (size > 0 && isFull) {
          sendOnce(call, caller, page);
          page = response.newBuilderForType();
          size = 0;
          since = System.nanoTime();
        }
        page.addRepeatedField(items, item);
        size += more;
      }
    }
    sendOnce(call, caller, page.setField(response.getDescriptorForType().findFieldByName("complete"), true));
  }

  /** Waits while the caller does not read. gRPC would tell that it does in this thread. */
  @SuppressWarnings("unchecked")
  private static <A> void sendOnce(Call call, StreamObserver<A> caller, Message.Builder page) throws InterruptedException {
    for (call.check(); !((ServerCallStreamObserver<A>) caller).isReady(); call.check()) {
      Thread.sleep(5);
    }
    caller.onNext((A) page.build());
  }
}
