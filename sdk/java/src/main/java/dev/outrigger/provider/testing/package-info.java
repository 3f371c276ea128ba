/** A client that does as the controller does, for tests of a provider that serves in the same process. */
package dev.outrigger.provider.testing;
