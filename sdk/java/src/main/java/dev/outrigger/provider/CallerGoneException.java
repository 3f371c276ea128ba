package dev.outrigger.provider;

/** The caller no longer waits for the call; see {@link Call#check}. */
public final class CallerGoneException extends RuntimeException {
  private static final long serialVersionUID = 1;

  CallerGoneException() {
    super("the caller no longer waits for this call");
  }
}
