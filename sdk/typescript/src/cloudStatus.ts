/** How the cloud is, by how the last calls ended. */
import type { ProviderError } from "./errors.js";
import { cut } from "./errors.js";
import { type DependencyStatus, type GetStatusResponse, Readiness } from "./gen/cloudprovider/v1/provider.js";

/** READY, or DEGRADED after a call that the cloud as a whole has failed. Never BROKEN: a restart mends no cloud. */
export class CloudStatus {
  private failures: DependencyStatus[] = [];
  private lastSuccess: Date | undefined;

  /** A call has ended, with this error of the whole cloud or without one. */
  note(failure: ProviderError | undefined): void {
    if (failure === undefined) {
      this.failures = [];
      this.lastSuccess = new Date();
      return;
    }
    const name = failure.reason === "CREDENTIALS_INVALID" ? "credentials" : "cloud-api";
    const status = { name, readiness: Readiness.DEGRADED, message: cut(failure.message, 1024), lastSuccess: this.lastSuccess };
    this.failures = [...this.failures.filter((other) => other.name !== name), status];
  }

  get(): Pick<GetStatusResponse, "readiness" | "dependencies"> {
    return { readiness: this.failures.length > 0 ? Readiness.DEGRADED : Readiness.READY, dependencies: this.failures };
  }
}
