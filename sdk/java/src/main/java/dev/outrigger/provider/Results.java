package dev.outrigger.provider;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import com.google.rpc.Status;
import dev.outrigger.cloudprovider.v1.Absent;
import dev.outrigger.cloudprovider.v1.AbsenceCertainty;
import dev.outrigger.cloudprovider.v1.KubernetesEffects;
import dev.outrigger.cloudprovider.v1.NotManaged;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.function.Function;

/** The results of a batch: exactly one for each item of the request, with the same fields in each batch. */
final class Results {
  private final Call call;
  private final String handler;
  private final Message response;
  private final FieldDescriptor results;
  private final Descriptor kind;
  private final long began = System.nanoTime();

  /**
   * No results yet.
   *
   * @param handler the author's class, for what is logged about it
   */
  Results(Call call, Message response, Object handler) {
    this.call = call;
    this.response = response;
    this.handler = handler.getClass().getSimpleName();
    this.results = response.getDescriptorForType().findFieldByName("results");
    this.kind = results.getMessageType();
  }

  /** The response to a batch, whose items without an outcome have an error. */
  <I extends Message, O extends Message> Message respond(
      List<I> items, Function<I, String> key, Map<String, Outcome<O>> outcomes) {
    if (outcomes == null) {
      throw new IllegalStateException(handler + " has answered null, and not a map of outcomes by key");
    }
    Message.Builder answer = response.newBuilderForType();
    Set<String> keys = new HashSet<>();
    for (I item : items) {
      String name = key.apply(item);
      keys.add(name);
      Outcome<O> missing = Outcome.failed(new NoSuchElementException(handler + " has no result for \"" + name + "\""));
      answer.addRepeatedField(results, result(name, outcomes.containsKey(name) ? outcomes.get(name) : missing));
    }
    for (String name : outcomes.keySet()) {
      if (!keys.contains(name)) {
        Logs.warn("a batch has a result for an item that the request does not have", "item", name);
      }
    }
    Message whole = answer.build();
    return whole.getSerializedSize() > call.maxSendBytes() ? withoutEffects(whole) : whole;
  }

  /** One response of a stream, with one result. */
  <O extends Message> Message one(String key, Outcome<O> outcome) {
    return response.newBuilderForType().addRepeatedField(results, result(key, outcome)).build();
  }

  private <O extends Message> Message result(String key, Outcome<O> outcome) {
    Message.Builder result = response.newBuilderForType().newBuilderForField(results);
    result.setField(field("key"), key);
    put(result, outcome, key);
    return result.build();
  }

  /** An outcome that this batch does not have is an error of its item, where the author sees it. */
  private <O extends Message> void put(Message.Builder result, Outcome<O> outcome, String key) {
    if (outcome instanceof Outcome.WithEffects<O> both) {
      put(result, both.outcome(), key);
      putEffects(result, both.effects());
    } else if (outcome instanceof Outcome.Failed<O> failed) {
      fail(result, failed.error());
    } else if (outcome instanceof Outcome.Found<O> found && found.message().getDescriptorForType() == field("found").getMessageType()) {
      result.setField(field("found"), found.message());
    } else if (outcome instanceof Outcome.Missing<O> missing && field("absent") != null) {
      result.setField(field("absent"), observed(missing.absent()));
    } else if (outcome instanceof Outcome.Foreign<O> foreign && field("not_managed") != null) {
      result.setField(field("not_managed"), NotManaged.newBuilder().setReason(foreign.reason()).build());
    } else if (outcome instanceof Outcome.Done<O> && call.rpc().equals("BatchDeleteRoutes")) {
      put(result, Outcome.<O>absent(), key);
    } else if (outcome instanceof Outcome.Done<O> && call.rpc().equals("BatchCreateRoutes")) {
      result.setField(field("found"), result.newBuilderForField(field("found")).build());
    } else {
      String came = outcome == null ? "null" : outcome.getClass().getSimpleName();
      fail(result, new IllegalStateException(handler + " has answered " + came + " about \"" + key + "\", and not "
          + field("found").getMessageType().getName() + " or another outcome of " + call.rpc()));
    }
  }

  /** An observation from before the call is a cache, whatever the handler says. */
  private Absent observed(Absent absent) {
    boolean isOld = Statuses.time(absent.getAge()).toNanos() > System.nanoTime() - began;
    return isOld
        ? absent.toBuilder().setCertainty(AbsenceCertainty.ABSENCE_CERTAINTY_NOT_VISIBLE_YET).build() : absent;
  }

  private void fail(Message.Builder result, Exception error) {
    boolean isDeliberate = error instanceof ProviderException;
    Status status = isDeliberate && field("effects") == null
        ? ((ProviderException) error).callStatus() : Statuses.of(error, call.requestId());
    result.setField(field("error"), status);
    if (isDeliberate && ((ProviderException) error).effects() != null) {
      putEffects(result, ((ProviderException) error).effects());
    }
  }

  private void putEffects(Message.Builder result, KubernetesEffects effects) {
    if (field("effects") != null) {
      result.setField(field("effects"), effects);
    }
  }

  private FieldDescriptor field(String name) {
    return kind.findFieldByName(name);
  }

  /** The caller must learn the outcomes. */
  private Message withoutEffects(Message whole) {
    FieldDescriptor effects = field("effects");
    if (effects == null) {
      return whole;
    }
    Message.Builder smaller = whole.toBuilder().clearField(results);
    for (Object result : (List<?>) whole.getField(results)) {
      smaller.addRepeatedField(results, ((Message) result).toBuilder().clearField(effects).build());
    }
    Message answer = smaller.build();
    if (answer.getSerializedSize() < whole.getSerializedSize()) {
      Logs.warn("the effects of a batch are left out, since its answer is too large; send fewer or shorter ones",
          "bytes", whole.getSerializedSize(), "limit", call.maxSendBytes());
    }
    return answer;
  }
}
