package dev.outrigger.provider;

/** The provider cannot serve at its endpoint; an operator reads why. */
public final class SocketException extends RuntimeException {
  private static final long serialVersionUID = 1;

  SocketException(String text, Throwable cause) {
    super(text, cause);
  }
}
